/* Messages with 0 to 16 arguments, of each kind, as requests and replies, numbered and not, of GASNet-EX
 * and of GASNet-1, to each rank. */
#include "test.h"

static int replies;
static unsigned char data[64];
static char *base_address[64];
static char *landing; /* where this rank's long replies go */

static gex_AM_Arg_t value(int i) { return (gex_AM_Arg_t)(0x80000001u + 0x01010101u * (unsigned)i); }
static void check_payload(const void *buf, size_t nbytes) {
  CHECK(nbytes == sizeof data);
  CHECK(!memcmp(buf, data, sizeof data));
}

#define T(i) value(i)

static void short_reply0(gex_Token_t token) { (void)token;  replies++; }
static void medium_reply0(gex_Token_t token, void *buf, size_t nbytes) {
  (void)token;
  
  check_payload(buf, nbytes);
  replies++;
}
static void long_reply0(gex_Token_t token, void *buf, size_t nbytes) {
  CHECK(buf == landing);
  medium_reply0(token, buf, nbytes);
}
static void short_request0(gex_Token_t token) {  CHECK(!gex_AM_ReplyShort0(token, 128, 0)); }
static void medium_request0(gex_Token_t token, void *buf, size_t nbytes) {
  
  check_payload(buf, nbytes);
  CHECK(!gex_AM_ReplyMedium(token, 145, buf, nbytes, GEX_EVENT_NOW, 0));
}
static void long_request0(gex_Token_t token, void *buf, size_t nbytes) {
  gex_Token_Info_t info;
  
  check_payload(buf, nbytes);
  CHECK((gex_Token_Info(token, &info, GEX_TI_ALL) & GEX_TI_SRCRANK) && info.gex_is_req && info.gex_is_long && info.gex_ep == ep);
  CHECK(buf == base_address[me] + 4096 * info.gex_srcrank && info.gex_entry->gex_nargs == 0);
  CHECK(!gex_AM_ReplyLong0(token, 162, buf, nbytes, base_address[info.gex_srcrank] + (1 << 19), GEX_EVENT_NOW, 0));
}
static void all0(gex_Rank_t to) {
  char *const there = base_address[to] + 4096 * me;
  gex_Event_t event = GEX_EVENT_NO_OP;
  replies = 0;
  CHECK(!gex_AM_RequestShort0(tm, to, 179, 0));
  CHECK(!gex_AM_RequestShort(tm, to, 179, 0));
  CHECK(!gasnet_AMRequestShort0(to, 179));
  GASNET_BLOCKUNTIL(replies == 3);
  CHECK(!gex_AM_RequestMedium0(tm, to, 196, data, sizeof data, GEX_EVENT_NOW, 0));
  CHECK(!gex_AM_RequestMedium(tm, to, 196, data, sizeof data, &event, 0));
  gex_Event_Wait(event);
  CHECK(!gasnet_AMRequestMedium(to, 196, data, sizeof data));
  GASNET_BLOCKUNTIL(replies == 6);
  memset(landing, 0, sizeof data);
  CHECK(!gex_AM_RequestLong0(tm, to, 213, data, sizeof data, there, GEX_EVENT_GROUP, 0));
  gex_NBI_Wait(GEX_EC_AM, 0);
  CHECK(!gex_AM_RequestLong(tm, to, 213, data, sizeof data, there, GEX_EVENT_NOW, 0));
  CHECK(!gasnet_AMRequestLongAsync0(to, 213, data, sizeof data, there));
  CHECK(!gasnet_AMRequestLong(to, 213, data, sizeof data, there));
  GASNET_BLOCKUNTIL(replies == 10);
}

static void short_reply1(gex_Token_t token, gex_AM_Arg_t a0) { (void)token; CHECK(a0 == T(0)); replies++; }
static void medium_reply1(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0) {
  (void)token;
  CHECK(a0 == T(0));
  check_payload(buf, nbytes);
  replies++;
}
static void long_reply1(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0) {
  CHECK(buf == landing);
  medium_reply1(token, buf, nbytes, a0);
}
static void short_request1(gex_Token_t token, gex_AM_Arg_t a0) { CHECK(a0 == T(0)); CHECK(!gex_AM_ReplyShort1(token, 129, 0, T(0))); }
static void medium_request1(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0) {
  CHECK(a0 == T(0));
  check_payload(buf, nbytes);
  CHECK(!gex_AM_ReplyMedium(token, 146, buf, nbytes, GEX_EVENT_NOW, 0, T(0)));
}
static void long_request1(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0) {
  gex_Token_Info_t info;
  CHECK(a0 == T(0));
  check_payload(buf, nbytes);
  CHECK((gex_Token_Info(token, &info, GEX_TI_ALL) & GEX_TI_SRCRANK) && info.gex_is_req && info.gex_is_long && info.gex_ep == ep);
  CHECK(buf == base_address[me] + 4096 * info.gex_srcrank && info.gex_entry->gex_nargs == 1);
  CHECK(!gex_AM_ReplyLong1(token, 163, buf, nbytes, base_address[info.gex_srcrank] + (1 << 19), GEX_EVENT_NOW, 0, T(0)));
}
static void all1(gex_Rank_t to) {
  char *const there = base_address[to] + 4096 * me;
  gex_Event_t event = GEX_EVENT_NO_OP;
  replies = 0;
  CHECK(!gex_AM_RequestShort1(tm, to, 180, 0, T(0)));
  CHECK(!gex_AM_RequestShort(tm, to, 180, 0, T(0)));
  CHECK(!gasnet_AMRequestShort1(to, 180, T(0)));
  GASNET_BLOCKUNTIL(replies == 3);
  CHECK(!gex_AM_RequestMedium1(tm, to, 197, data, sizeof data, GEX_EVENT_NOW, 0, T(0)));
  CHECK(!gex_AM_RequestMedium(tm, to, 197, data, sizeof data, &event, 0, T(0)));
  gex_Event_Wait(event);
  CHECK(!gasnet_AMRequestMedium(to, 197, data, sizeof data, T(0)));
  GASNET_BLOCKUNTIL(replies == 6);
  memset(landing, 0, sizeof data);
  CHECK(!gex_AM_RequestLong1(tm, to, 214, data, sizeof data, there, GEX_EVENT_GROUP, 0, T(0)));
  gex_NBI_Wait(GEX_EC_AM, 0);
  CHECK(!gex_AM_RequestLong(tm, to, 214, data, sizeof data, there, GEX_EVENT_NOW, 0, T(0)));
  CHECK(!gasnet_AMRequestLongAsync1(to, 214, data, sizeof data, there, T(0)));
  CHECK(!gasnet_AMRequestLong(to, 214, data, sizeof data, there, T(0)));
  GASNET_BLOCKUNTIL(replies == 10);
}

static void short_reply2(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1) { (void)token; CHECK(a0 == T(0)); CHECK(a1 == T(1)); replies++; }
static void medium_reply2(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1) {
  (void)token;
  CHECK(a0 == T(0)); CHECK(a1 == T(1));
  check_payload(buf, nbytes);
  replies++;
}
static void long_reply2(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1) {
  CHECK(buf == landing);
  medium_reply2(token, buf, nbytes, a0, a1);
}
static void short_request2(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1) { CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(!gex_AM_ReplyShort2(token, 130, 0, T(0), T(1))); }
static void medium_request2(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1) {
  CHECK(a0 == T(0)); CHECK(a1 == T(1));
  check_payload(buf, nbytes);
  CHECK(!gex_AM_ReplyMedium(token, 147, buf, nbytes, GEX_EVENT_NOW, 0, T(0), T(1)));
}
static void long_request2(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1) {
  gex_Token_Info_t info;
  CHECK(a0 == T(0)); CHECK(a1 == T(1));
  check_payload(buf, nbytes);
  CHECK((gex_Token_Info(token, &info, GEX_TI_ALL) & GEX_TI_SRCRANK) && info.gex_is_req && info.gex_is_long && info.gex_ep == ep);
  CHECK(buf == base_address[me] + 4096 * info.gex_srcrank && info.gex_entry->gex_nargs == 2);
  CHECK(!gex_AM_ReplyLong2(token, 164, buf, nbytes, base_address[info.gex_srcrank] + (1 << 19), GEX_EVENT_NOW, 0, T(0), T(1)));
}
static void all2(gex_Rank_t to) {
  char *const there = base_address[to] + 4096 * me;
  gex_Event_t event = GEX_EVENT_NO_OP;
  replies = 0;
  CHECK(!gex_AM_RequestShort2(tm, to, 181, 0, T(0), T(1)));
  CHECK(!gex_AM_RequestShort(tm, to, 181, 0, T(0), T(1)));
  CHECK(!gasnet_AMRequestShort2(to, 181, T(0), T(1)));
  GASNET_BLOCKUNTIL(replies == 3);
  CHECK(!gex_AM_RequestMedium2(tm, to, 198, data, sizeof data, GEX_EVENT_NOW, 0, T(0), T(1)));
  CHECK(!gex_AM_RequestMedium(tm, to, 198, data, sizeof data, &event, 0, T(0), T(1)));
  gex_Event_Wait(event);
  CHECK(!gasnet_AMRequestMedium(to, 198, data, sizeof data, T(0), T(1)));
  GASNET_BLOCKUNTIL(replies == 6);
  memset(landing, 0, sizeof data);
  CHECK(!gex_AM_RequestLong2(tm, to, 215, data, sizeof data, there, GEX_EVENT_GROUP, 0, T(0), T(1)));
  gex_NBI_Wait(GEX_EC_AM, 0);
  CHECK(!gex_AM_RequestLong(tm, to, 215, data, sizeof data, there, GEX_EVENT_NOW, 0, T(0), T(1)));
  CHECK(!gasnet_AMRequestLongAsync2(to, 215, data, sizeof data, there, T(0), T(1)));
  CHECK(!gasnet_AMRequestLong(to, 215, data, sizeof data, there, T(0), T(1)));
  GASNET_BLOCKUNTIL(replies == 10);
}

static void short_reply3(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2) { (void)token; CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); replies++; }
static void medium_reply3(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2) {
  (void)token;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2));
  check_payload(buf, nbytes);
  replies++;
}
static void long_reply3(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2) {
  CHECK(buf == landing);
  medium_reply3(token, buf, nbytes, a0, a1, a2);
}
static void short_request3(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2) { CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(!gex_AM_ReplyShort3(token, 131, 0, T(0), T(1), T(2))); }
static void medium_request3(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2) {
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2));
  check_payload(buf, nbytes);
  CHECK(!gex_AM_ReplyMedium(token, 148, buf, nbytes, GEX_EVENT_NOW, 0, T(0), T(1), T(2)));
}
static void long_request3(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2) {
  gex_Token_Info_t info;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2));
  check_payload(buf, nbytes);
  CHECK((gex_Token_Info(token, &info, GEX_TI_ALL) & GEX_TI_SRCRANK) && info.gex_is_req && info.gex_is_long && info.gex_ep == ep);
  CHECK(buf == base_address[me] + 4096 * info.gex_srcrank && info.gex_entry->gex_nargs == 3);
  CHECK(!gex_AM_ReplyLong3(token, 165, buf, nbytes, base_address[info.gex_srcrank] + (1 << 19), GEX_EVENT_NOW, 0, T(0), T(1), T(2)));
}
static void all3(gex_Rank_t to) {
  char *const there = base_address[to] + 4096 * me;
  gex_Event_t event = GEX_EVENT_NO_OP;
  replies = 0;
  CHECK(!gex_AM_RequestShort3(tm, to, 182, 0, T(0), T(1), T(2)));
  CHECK(!gex_AM_RequestShort(tm, to, 182, 0, T(0), T(1), T(2)));
  CHECK(!gasnet_AMRequestShort3(to, 182, T(0), T(1), T(2)));
  GASNET_BLOCKUNTIL(replies == 3);
  CHECK(!gex_AM_RequestMedium3(tm, to, 199, data, sizeof data, GEX_EVENT_NOW, 0, T(0), T(1), T(2)));
  CHECK(!gex_AM_RequestMedium(tm, to, 199, data, sizeof data, &event, 0, T(0), T(1), T(2)));
  gex_Event_Wait(event);
  CHECK(!gasnet_AMRequestMedium(to, 199, data, sizeof data, T(0), T(1), T(2)));
  GASNET_BLOCKUNTIL(replies == 6);
  memset(landing, 0, sizeof data);
  CHECK(!gex_AM_RequestLong3(tm, to, 216, data, sizeof data, there, GEX_EVENT_GROUP, 0, T(0), T(1), T(2)));
  gex_NBI_Wait(GEX_EC_AM, 0);
  CHECK(!gex_AM_RequestLong(tm, to, 216, data, sizeof data, there, GEX_EVENT_NOW, 0, T(0), T(1), T(2)));
  CHECK(!gasnet_AMRequestLongAsync3(to, 216, data, sizeof data, there, T(0), T(1), T(2)));
  CHECK(!gasnet_AMRequestLong(to, 216, data, sizeof data, there, T(0), T(1), T(2)));
  GASNET_BLOCKUNTIL(replies == 10);
}

static void short_reply4(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3) { (void)token; CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); replies++; }
static void medium_reply4(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3) {
  (void)token;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3));
  check_payload(buf, nbytes);
  replies++;
}
static void long_reply4(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3) {
  CHECK(buf == landing);
  medium_reply4(token, buf, nbytes, a0, a1, a2, a3);
}
static void short_request4(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3) { CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(!gex_AM_ReplyShort4(token, 132, 0, T(0), T(1), T(2), T(3))); }
static void medium_request4(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3) {
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3));
  check_payload(buf, nbytes);
  CHECK(!gex_AM_ReplyMedium(token, 149, buf, nbytes, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3)));
}
static void long_request4(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3) {
  gex_Token_Info_t info;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3));
  check_payload(buf, nbytes);
  CHECK((gex_Token_Info(token, &info, GEX_TI_ALL) & GEX_TI_SRCRANK) && info.gex_is_req && info.gex_is_long && info.gex_ep == ep);
  CHECK(buf == base_address[me] + 4096 * info.gex_srcrank && info.gex_entry->gex_nargs == 4);
  CHECK(!gex_AM_ReplyLong4(token, 166, buf, nbytes, base_address[info.gex_srcrank] + (1 << 19), GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3)));
}
static void all4(gex_Rank_t to) {
  char *const there = base_address[to] + 4096 * me;
  gex_Event_t event = GEX_EVENT_NO_OP;
  replies = 0;
  CHECK(!gex_AM_RequestShort4(tm, to, 183, 0, T(0), T(1), T(2), T(3)));
  CHECK(!gex_AM_RequestShort(tm, to, 183, 0, T(0), T(1), T(2), T(3)));
  CHECK(!gasnet_AMRequestShort4(to, 183, T(0), T(1), T(2), T(3)));
  GASNET_BLOCKUNTIL(replies == 3);
  CHECK(!gex_AM_RequestMedium4(tm, to, 200, data, sizeof data, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3)));
  CHECK(!gex_AM_RequestMedium(tm, to, 200, data, sizeof data, &event, 0, T(0), T(1), T(2), T(3)));
  gex_Event_Wait(event);
  CHECK(!gasnet_AMRequestMedium(to, 200, data, sizeof data, T(0), T(1), T(2), T(3)));
  GASNET_BLOCKUNTIL(replies == 6);
  memset(landing, 0, sizeof data);
  CHECK(!gex_AM_RequestLong4(tm, to, 217, data, sizeof data, there, GEX_EVENT_GROUP, 0, T(0), T(1), T(2), T(3)));
  gex_NBI_Wait(GEX_EC_AM, 0);
  CHECK(!gex_AM_RequestLong(tm, to, 217, data, sizeof data, there, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3)));
  CHECK(!gasnet_AMRequestLongAsync4(to, 217, data, sizeof data, there, T(0), T(1), T(2), T(3)));
  CHECK(!gasnet_AMRequestLong(to, 217, data, sizeof data, there, T(0), T(1), T(2), T(3)));
  GASNET_BLOCKUNTIL(replies == 10);
}

static void short_reply5(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4) { (void)token; CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); replies++; }
static void medium_reply5(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4) {
  (void)token;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4));
  check_payload(buf, nbytes);
  replies++;
}
static void long_reply5(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4) {
  CHECK(buf == landing);
  medium_reply5(token, buf, nbytes, a0, a1, a2, a3, a4);
}
static void short_request5(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4) { CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(!gex_AM_ReplyShort5(token, 133, 0, T(0), T(1), T(2), T(3), T(4))); }
static void medium_request5(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4) {
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4));
  check_payload(buf, nbytes);
  CHECK(!gex_AM_ReplyMedium(token, 150, buf, nbytes, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4)));
}
static void long_request5(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4) {
  gex_Token_Info_t info;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4));
  check_payload(buf, nbytes);
  CHECK((gex_Token_Info(token, &info, GEX_TI_ALL) & GEX_TI_SRCRANK) && info.gex_is_req && info.gex_is_long && info.gex_ep == ep);
  CHECK(buf == base_address[me] + 4096 * info.gex_srcrank && info.gex_entry->gex_nargs == 5);
  CHECK(!gex_AM_ReplyLong5(token, 167, buf, nbytes, base_address[info.gex_srcrank] + (1 << 19), GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4)));
}
static void all5(gex_Rank_t to) {
  char *const there = base_address[to] + 4096 * me;
  gex_Event_t event = GEX_EVENT_NO_OP;
  replies = 0;
  CHECK(!gex_AM_RequestShort5(tm, to, 184, 0, T(0), T(1), T(2), T(3), T(4)));
  CHECK(!gex_AM_RequestShort(tm, to, 184, 0, T(0), T(1), T(2), T(3), T(4)));
  CHECK(!gasnet_AMRequestShort5(to, 184, T(0), T(1), T(2), T(3), T(4)));
  GASNET_BLOCKUNTIL(replies == 3);
  CHECK(!gex_AM_RequestMedium5(tm, to, 201, data, sizeof data, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4)));
  CHECK(!gex_AM_RequestMedium(tm, to, 201, data, sizeof data, &event, 0, T(0), T(1), T(2), T(3), T(4)));
  gex_Event_Wait(event);
  CHECK(!gasnet_AMRequestMedium(to, 201, data, sizeof data, T(0), T(1), T(2), T(3), T(4)));
  GASNET_BLOCKUNTIL(replies == 6);
  memset(landing, 0, sizeof data);
  CHECK(!gex_AM_RequestLong5(tm, to, 218, data, sizeof data, there, GEX_EVENT_GROUP, 0, T(0), T(1), T(2), T(3), T(4)));
  gex_NBI_Wait(GEX_EC_AM, 0);
  CHECK(!gex_AM_RequestLong(tm, to, 218, data, sizeof data, there, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4)));
  CHECK(!gasnet_AMRequestLongAsync5(to, 218, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4)));
  CHECK(!gasnet_AMRequestLong(to, 218, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4)));
  GASNET_BLOCKUNTIL(replies == 10);
}

static void short_reply6(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5) { (void)token; CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); replies++; }
static void medium_reply6(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5) {
  (void)token;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5));
  check_payload(buf, nbytes);
  replies++;
}
static void long_reply6(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5) {
  CHECK(buf == landing);
  medium_reply6(token, buf, nbytes, a0, a1, a2, a3, a4, a5);
}
static void short_request6(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5) { CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(!gex_AM_ReplyShort6(token, 134, 0, T(0), T(1), T(2), T(3), T(4), T(5))); }
static void medium_request6(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5) {
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5));
  check_payload(buf, nbytes);
  CHECK(!gex_AM_ReplyMedium(token, 151, buf, nbytes, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5)));
}
static void long_request6(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5) {
  gex_Token_Info_t info;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5));
  check_payload(buf, nbytes);
  CHECK((gex_Token_Info(token, &info, GEX_TI_ALL) & GEX_TI_SRCRANK) && info.gex_is_req && info.gex_is_long && info.gex_ep == ep);
  CHECK(buf == base_address[me] + 4096 * info.gex_srcrank && info.gex_entry->gex_nargs == 6);
  CHECK(!gex_AM_ReplyLong6(token, 168, buf, nbytes, base_address[info.gex_srcrank] + (1 << 19), GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5)));
}
static void all6(gex_Rank_t to) {
  char *const there = base_address[to] + 4096 * me;
  gex_Event_t event = GEX_EVENT_NO_OP;
  replies = 0;
  CHECK(!gex_AM_RequestShort6(tm, to, 185, 0, T(0), T(1), T(2), T(3), T(4), T(5)));
  CHECK(!gex_AM_RequestShort(tm, to, 185, 0, T(0), T(1), T(2), T(3), T(4), T(5)));
  CHECK(!gasnet_AMRequestShort6(to, 185, T(0), T(1), T(2), T(3), T(4), T(5)));
  GASNET_BLOCKUNTIL(replies == 3);
  CHECK(!gex_AM_RequestMedium6(tm, to, 202, data, sizeof data, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5)));
  CHECK(!gex_AM_RequestMedium(tm, to, 202, data, sizeof data, &event, 0, T(0), T(1), T(2), T(3), T(4), T(5)));
  gex_Event_Wait(event);
  CHECK(!gasnet_AMRequestMedium(to, 202, data, sizeof data, T(0), T(1), T(2), T(3), T(4), T(5)));
  GASNET_BLOCKUNTIL(replies == 6);
  memset(landing, 0, sizeof data);
  CHECK(!gex_AM_RequestLong6(tm, to, 219, data, sizeof data, there, GEX_EVENT_GROUP, 0, T(0), T(1), T(2), T(3), T(4), T(5)));
  gex_NBI_Wait(GEX_EC_AM, 0);
  CHECK(!gex_AM_RequestLong(tm, to, 219, data, sizeof data, there, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5)));
  CHECK(!gasnet_AMRequestLongAsync6(to, 219, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4), T(5)));
  CHECK(!gasnet_AMRequestLong(to, 219, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4), T(5)));
  GASNET_BLOCKUNTIL(replies == 10);
}

static void short_reply7(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6) { (void)token; CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); replies++; }
static void medium_reply7(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6) {
  (void)token;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6));
  check_payload(buf, nbytes);
  replies++;
}
static void long_reply7(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6) {
  CHECK(buf == landing);
  medium_reply7(token, buf, nbytes, a0, a1, a2, a3, a4, a5, a6);
}
static void short_request7(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6) { CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(!gex_AM_ReplyShort7(token, 135, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6))); }
static void medium_request7(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6) {
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6));
  check_payload(buf, nbytes);
  CHECK(!gex_AM_ReplyMedium(token, 152, buf, nbytes, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6)));
}
static void long_request7(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6) {
  gex_Token_Info_t info;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6));
  check_payload(buf, nbytes);
  CHECK((gex_Token_Info(token, &info, GEX_TI_ALL) & GEX_TI_SRCRANK) && info.gex_is_req && info.gex_is_long && info.gex_ep == ep);
  CHECK(buf == base_address[me] + 4096 * info.gex_srcrank && info.gex_entry->gex_nargs == 7);
  CHECK(!gex_AM_ReplyLong7(token, 169, buf, nbytes, base_address[info.gex_srcrank] + (1 << 19), GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6)));
}
static void all7(gex_Rank_t to) {
  char *const there = base_address[to] + 4096 * me;
  gex_Event_t event = GEX_EVENT_NO_OP;
  replies = 0;
  CHECK(!gex_AM_RequestShort7(tm, to, 186, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6)));
  CHECK(!gex_AM_RequestShort(tm, to, 186, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6)));
  CHECK(!gasnet_AMRequestShort7(to, 186, T(0), T(1), T(2), T(3), T(4), T(5), T(6)));
  GASNET_BLOCKUNTIL(replies == 3);
  CHECK(!gex_AM_RequestMedium7(tm, to, 203, data, sizeof data, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6)));
  CHECK(!gex_AM_RequestMedium(tm, to, 203, data, sizeof data, &event, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6)));
  gex_Event_Wait(event);
  CHECK(!gasnet_AMRequestMedium(to, 203, data, sizeof data, T(0), T(1), T(2), T(3), T(4), T(5), T(6)));
  GASNET_BLOCKUNTIL(replies == 6);
  memset(landing, 0, sizeof data);
  CHECK(!gex_AM_RequestLong7(tm, to, 220, data, sizeof data, there, GEX_EVENT_GROUP, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6)));
  gex_NBI_Wait(GEX_EC_AM, 0);
  CHECK(!gex_AM_RequestLong(tm, to, 220, data, sizeof data, there, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6)));
  CHECK(!gasnet_AMRequestLongAsync7(to, 220, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4), T(5), T(6)));
  CHECK(!gasnet_AMRequestLong(to, 220, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4), T(5), T(6)));
  GASNET_BLOCKUNTIL(replies == 10);
}

static void short_reply8(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7) { (void)token; CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); replies++; }
static void medium_reply8(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7) {
  (void)token;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7));
  check_payload(buf, nbytes);
  replies++;
}
static void long_reply8(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7) {
  CHECK(buf == landing);
  medium_reply8(token, buf, nbytes, a0, a1, a2, a3, a4, a5, a6, a7);
}
static void short_request8(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7) { CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(!gex_AM_ReplyShort8(token, 136, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7))); }
static void medium_request8(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7) {
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7));
  check_payload(buf, nbytes);
  CHECK(!gex_AM_ReplyMedium(token, 153, buf, nbytes, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7)));
}
static void long_request8(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7) {
  gex_Token_Info_t info;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7));
  check_payload(buf, nbytes);
  CHECK((gex_Token_Info(token, &info, GEX_TI_ALL) & GEX_TI_SRCRANK) && info.gex_is_req && info.gex_is_long && info.gex_ep == ep);
  CHECK(buf == base_address[me] + 4096 * info.gex_srcrank && info.gex_entry->gex_nargs == 8);
  CHECK(!gex_AM_ReplyLong8(token, 170, buf, nbytes, base_address[info.gex_srcrank] + (1 << 19), GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7)));
}
static void all8(gex_Rank_t to) {
  char *const there = base_address[to] + 4096 * me;
  gex_Event_t event = GEX_EVENT_NO_OP;
  replies = 0;
  CHECK(!gex_AM_RequestShort8(tm, to, 187, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7)));
  CHECK(!gex_AM_RequestShort(tm, to, 187, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7)));
  CHECK(!gasnet_AMRequestShort8(to, 187, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7)));
  GASNET_BLOCKUNTIL(replies == 3);
  CHECK(!gex_AM_RequestMedium8(tm, to, 204, data, sizeof data, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7)));
  CHECK(!gex_AM_RequestMedium(tm, to, 204, data, sizeof data, &event, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7)));
  gex_Event_Wait(event);
  CHECK(!gasnet_AMRequestMedium(to, 204, data, sizeof data, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7)));
  GASNET_BLOCKUNTIL(replies == 6);
  memset(landing, 0, sizeof data);
  CHECK(!gex_AM_RequestLong8(tm, to, 221, data, sizeof data, there, GEX_EVENT_GROUP, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7)));
  gex_NBI_Wait(GEX_EC_AM, 0);
  CHECK(!gex_AM_RequestLong(tm, to, 221, data, sizeof data, there, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7)));
  CHECK(!gasnet_AMRequestLongAsync8(to, 221, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7)));
  CHECK(!gasnet_AMRequestLong(to, 221, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7)));
  GASNET_BLOCKUNTIL(replies == 10);
}

static void short_reply9(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8) { (void)token; CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); replies++; }
static void medium_reply9(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8) {
  (void)token;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8));
  check_payload(buf, nbytes);
  replies++;
}
static void long_reply9(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8) {
  CHECK(buf == landing);
  medium_reply9(token, buf, nbytes, a0, a1, a2, a3, a4, a5, a6, a7, a8);
}
static void short_request9(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8) { CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(!gex_AM_ReplyShort9(token, 137, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8))); }
static void medium_request9(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8) {
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8));
  check_payload(buf, nbytes);
  CHECK(!gex_AM_ReplyMedium(token, 154, buf, nbytes, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8)));
}
static void long_request9(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8) {
  gex_Token_Info_t info;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8));
  check_payload(buf, nbytes);
  CHECK((gex_Token_Info(token, &info, GEX_TI_ALL) & GEX_TI_SRCRANK) && info.gex_is_req && info.gex_is_long && info.gex_ep == ep);
  CHECK(buf == base_address[me] + 4096 * info.gex_srcrank && info.gex_entry->gex_nargs == 9);
  CHECK(!gex_AM_ReplyLong9(token, 171, buf, nbytes, base_address[info.gex_srcrank] + (1 << 19), GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8)));
}
static void all9(gex_Rank_t to) {
  char *const there = base_address[to] + 4096 * me;
  gex_Event_t event = GEX_EVENT_NO_OP;
  replies = 0;
  CHECK(!gex_AM_RequestShort9(tm, to, 188, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8)));
  CHECK(!gex_AM_RequestShort(tm, to, 188, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8)));
  CHECK(!gasnet_AMRequestShort9(to, 188, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8)));
  GASNET_BLOCKUNTIL(replies == 3);
  CHECK(!gex_AM_RequestMedium9(tm, to, 205, data, sizeof data, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8)));
  CHECK(!gex_AM_RequestMedium(tm, to, 205, data, sizeof data, &event, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8)));
  gex_Event_Wait(event);
  CHECK(!gasnet_AMRequestMedium(to, 205, data, sizeof data, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8)));
  GASNET_BLOCKUNTIL(replies == 6);
  memset(landing, 0, sizeof data);
  CHECK(!gex_AM_RequestLong9(tm, to, 222, data, sizeof data, there, GEX_EVENT_GROUP, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8)));
  gex_NBI_Wait(GEX_EC_AM, 0);
  CHECK(!gex_AM_RequestLong(tm, to, 222, data, sizeof data, there, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8)));
  CHECK(!gasnet_AMRequestLongAsync9(to, 222, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8)));
  CHECK(!gasnet_AMRequestLong(to, 222, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8)));
  GASNET_BLOCKUNTIL(replies == 10);
}

static void short_reply10(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9) { (void)token; CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); replies++; }
static void medium_reply10(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9) {
  (void)token;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9));
  check_payload(buf, nbytes);
  replies++;
}
static void long_reply10(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9) {
  CHECK(buf == landing);
  medium_reply10(token, buf, nbytes, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9);
}
static void short_request10(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9) { CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(!gex_AM_ReplyShort10(token, 138, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9))); }
static void medium_request10(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9) {
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9));
  check_payload(buf, nbytes);
  CHECK(!gex_AM_ReplyMedium(token, 155, buf, nbytes, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9)));
}
static void long_request10(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9) {
  gex_Token_Info_t info;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9));
  check_payload(buf, nbytes);
  CHECK((gex_Token_Info(token, &info, GEX_TI_ALL) & GEX_TI_SRCRANK) && info.gex_is_req && info.gex_is_long && info.gex_ep == ep);
  CHECK(buf == base_address[me] + 4096 * info.gex_srcrank && info.gex_entry->gex_nargs == 10);
  CHECK(!gex_AM_ReplyLong10(token, 172, buf, nbytes, base_address[info.gex_srcrank] + (1 << 19), GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9)));
}
static void all10(gex_Rank_t to) {
  char *const there = base_address[to] + 4096 * me;
  gex_Event_t event = GEX_EVENT_NO_OP;
  replies = 0;
  CHECK(!gex_AM_RequestShort10(tm, to, 189, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9)));
  CHECK(!gex_AM_RequestShort(tm, to, 189, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9)));
  CHECK(!gasnet_AMRequestShort10(to, 189, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9)));
  GASNET_BLOCKUNTIL(replies == 3);
  CHECK(!gex_AM_RequestMedium10(tm, to, 206, data, sizeof data, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9)));
  CHECK(!gex_AM_RequestMedium(tm, to, 206, data, sizeof data, &event, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9)));
  gex_Event_Wait(event);
  CHECK(!gasnet_AMRequestMedium(to, 206, data, sizeof data, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9)));
  GASNET_BLOCKUNTIL(replies == 6);
  memset(landing, 0, sizeof data);
  CHECK(!gex_AM_RequestLong10(tm, to, 223, data, sizeof data, there, GEX_EVENT_GROUP, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9)));
  gex_NBI_Wait(GEX_EC_AM, 0);
  CHECK(!gex_AM_RequestLong(tm, to, 223, data, sizeof data, there, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9)));
  CHECK(!gasnet_AMRequestLongAsync10(to, 223, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9)));
  CHECK(!gasnet_AMRequestLong(to, 223, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9)));
  GASNET_BLOCKUNTIL(replies == 10);
}

static void short_reply11(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10) { (void)token; CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); replies++; }
static void medium_reply11(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10) {
  (void)token;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10));
  check_payload(buf, nbytes);
  replies++;
}
static void long_reply11(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10) {
  CHECK(buf == landing);
  medium_reply11(token, buf, nbytes, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10);
}
static void short_request11(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10) { CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(!gex_AM_ReplyShort11(token, 139, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10))); }
static void medium_request11(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10) {
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10));
  check_payload(buf, nbytes);
  CHECK(!gex_AM_ReplyMedium(token, 156, buf, nbytes, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10)));
}
static void long_request11(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10) {
  gex_Token_Info_t info;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10));
  check_payload(buf, nbytes);
  CHECK((gex_Token_Info(token, &info, GEX_TI_ALL) & GEX_TI_SRCRANK) && info.gex_is_req && info.gex_is_long && info.gex_ep == ep);
  CHECK(buf == base_address[me] + 4096 * info.gex_srcrank && info.gex_entry->gex_nargs == 11);
  CHECK(!gex_AM_ReplyLong11(token, 173, buf, nbytes, base_address[info.gex_srcrank] + (1 << 19), GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10)));
}
static void all11(gex_Rank_t to) {
  char *const there = base_address[to] + 4096 * me;
  gex_Event_t event = GEX_EVENT_NO_OP;
  replies = 0;
  CHECK(!gex_AM_RequestShort11(tm, to, 190, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10)));
  CHECK(!gex_AM_RequestShort(tm, to, 190, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10)));
  CHECK(!gasnet_AMRequestShort11(to, 190, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10)));
  GASNET_BLOCKUNTIL(replies == 3);
  CHECK(!gex_AM_RequestMedium11(tm, to, 207, data, sizeof data, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10)));
  CHECK(!gex_AM_RequestMedium(tm, to, 207, data, sizeof data, &event, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10)));
  gex_Event_Wait(event);
  CHECK(!gasnet_AMRequestMedium(to, 207, data, sizeof data, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10)));
  GASNET_BLOCKUNTIL(replies == 6);
  memset(landing, 0, sizeof data);
  CHECK(!gex_AM_RequestLong11(tm, to, 224, data, sizeof data, there, GEX_EVENT_GROUP, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10)));
  gex_NBI_Wait(GEX_EC_AM, 0);
  CHECK(!gex_AM_RequestLong(tm, to, 224, data, sizeof data, there, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10)));
  CHECK(!gasnet_AMRequestLongAsync11(to, 224, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10)));
  CHECK(!gasnet_AMRequestLong(to, 224, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10)));
  GASNET_BLOCKUNTIL(replies == 10);
}

static void short_reply12(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11) { (void)token; CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11)); replies++; }
static void medium_reply12(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11) {
  (void)token;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11));
  check_payload(buf, nbytes);
  replies++;
}
static void long_reply12(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11) {
  CHECK(buf == landing);
  medium_reply12(token, buf, nbytes, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11);
}
static void short_request12(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11) { CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11)); CHECK(!gex_AM_ReplyShort12(token, 140, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11))); }
static void medium_request12(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11) {
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11));
  check_payload(buf, nbytes);
  CHECK(!gex_AM_ReplyMedium(token, 157, buf, nbytes, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11)));
}
static void long_request12(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11) {
  gex_Token_Info_t info;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11));
  check_payload(buf, nbytes);
  CHECK((gex_Token_Info(token, &info, GEX_TI_ALL) & GEX_TI_SRCRANK) && info.gex_is_req && info.gex_is_long && info.gex_ep == ep);
  CHECK(buf == base_address[me] + 4096 * info.gex_srcrank && info.gex_entry->gex_nargs == 12);
  CHECK(!gex_AM_ReplyLong12(token, 174, buf, nbytes, base_address[info.gex_srcrank] + (1 << 19), GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11)));
}
static void all12(gex_Rank_t to) {
  char *const there = base_address[to] + 4096 * me;
  gex_Event_t event = GEX_EVENT_NO_OP;
  replies = 0;
  CHECK(!gex_AM_RequestShort12(tm, to, 191, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11)));
  CHECK(!gex_AM_RequestShort(tm, to, 191, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11)));
  CHECK(!gasnet_AMRequestShort12(to, 191, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11)));
  GASNET_BLOCKUNTIL(replies == 3);
  CHECK(!gex_AM_RequestMedium12(tm, to, 208, data, sizeof data, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11)));
  CHECK(!gex_AM_RequestMedium(tm, to, 208, data, sizeof data, &event, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11)));
  gex_Event_Wait(event);
  CHECK(!gasnet_AMRequestMedium(to, 208, data, sizeof data, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11)));
  GASNET_BLOCKUNTIL(replies == 6);
  memset(landing, 0, sizeof data);
  CHECK(!gex_AM_RequestLong12(tm, to, 225, data, sizeof data, there, GEX_EVENT_GROUP, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11)));
  gex_NBI_Wait(GEX_EC_AM, 0);
  CHECK(!gex_AM_RequestLong(tm, to, 225, data, sizeof data, there, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11)));
  CHECK(!gasnet_AMRequestLongAsync12(to, 225, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11)));
  CHECK(!gasnet_AMRequestLong(to, 225, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11)));
  GASNET_BLOCKUNTIL(replies == 10);
}

static void short_reply13(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12) { (void)token; CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11)); CHECK(a12 == T(12)); replies++; }
static void medium_reply13(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12) {
  (void)token;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11)); CHECK(a12 == T(12));
  check_payload(buf, nbytes);
  replies++;
}
static void long_reply13(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12) {
  CHECK(buf == landing);
  medium_reply13(token, buf, nbytes, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12);
}
static void short_request13(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12) { CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11)); CHECK(a12 == T(12)); CHECK(!gex_AM_ReplyShort13(token, 141, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12))); }
static void medium_request13(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12) {
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11)); CHECK(a12 == T(12));
  check_payload(buf, nbytes);
  CHECK(!gex_AM_ReplyMedium(token, 158, buf, nbytes, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12)));
}
static void long_request13(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12) {
  gex_Token_Info_t info;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11)); CHECK(a12 == T(12));
  check_payload(buf, nbytes);
  CHECK((gex_Token_Info(token, &info, GEX_TI_ALL) & GEX_TI_SRCRANK) && info.gex_is_req && info.gex_is_long && info.gex_ep == ep);
  CHECK(buf == base_address[me] + 4096 * info.gex_srcrank && info.gex_entry->gex_nargs == 13);
  CHECK(!gex_AM_ReplyLong13(token, 175, buf, nbytes, base_address[info.gex_srcrank] + (1 << 19), GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12)));
}
static void all13(gex_Rank_t to) {
  char *const there = base_address[to] + 4096 * me;
  gex_Event_t event = GEX_EVENT_NO_OP;
  replies = 0;
  CHECK(!gex_AM_RequestShort13(tm, to, 192, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12)));
  CHECK(!gex_AM_RequestShort(tm, to, 192, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12)));
  CHECK(!gasnet_AMRequestShort13(to, 192, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12)));
  GASNET_BLOCKUNTIL(replies == 3);
  CHECK(!gex_AM_RequestMedium13(tm, to, 209, data, sizeof data, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12)));
  CHECK(!gex_AM_RequestMedium(tm, to, 209, data, sizeof data, &event, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12)));
  gex_Event_Wait(event);
  CHECK(!gasnet_AMRequestMedium(to, 209, data, sizeof data, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12)));
  GASNET_BLOCKUNTIL(replies == 6);
  memset(landing, 0, sizeof data);
  CHECK(!gex_AM_RequestLong13(tm, to, 226, data, sizeof data, there, GEX_EVENT_GROUP, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12)));
  gex_NBI_Wait(GEX_EC_AM, 0);
  CHECK(!gex_AM_RequestLong(tm, to, 226, data, sizeof data, there, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12)));
  CHECK(!gasnet_AMRequestLongAsync13(to, 226, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12)));
  CHECK(!gasnet_AMRequestLong(to, 226, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12)));
  GASNET_BLOCKUNTIL(replies == 10);
}

static void short_reply14(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12, gex_AM_Arg_t a13) { (void)token; CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11)); CHECK(a12 == T(12)); CHECK(a13 == T(13)); replies++; }
static void medium_reply14(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12, gex_AM_Arg_t a13) {
  (void)token;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11)); CHECK(a12 == T(12)); CHECK(a13 == T(13));
  check_payload(buf, nbytes);
  replies++;
}
static void long_reply14(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12, gex_AM_Arg_t a13) {
  CHECK(buf == landing);
  medium_reply14(token, buf, nbytes, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13);
}
static void short_request14(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12, gex_AM_Arg_t a13) { CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11)); CHECK(a12 == T(12)); CHECK(a13 == T(13)); CHECK(!gex_AM_ReplyShort14(token, 142, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13))); }
static void medium_request14(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12, gex_AM_Arg_t a13) {
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11)); CHECK(a12 == T(12)); CHECK(a13 == T(13));
  check_payload(buf, nbytes);
  CHECK(!gex_AM_ReplyMedium(token, 159, buf, nbytes, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13)));
}
static void long_request14(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12, gex_AM_Arg_t a13) {
  gex_Token_Info_t info;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11)); CHECK(a12 == T(12)); CHECK(a13 == T(13));
  check_payload(buf, nbytes);
  CHECK((gex_Token_Info(token, &info, GEX_TI_ALL) & GEX_TI_SRCRANK) && info.gex_is_req && info.gex_is_long && info.gex_ep == ep);
  CHECK(buf == base_address[me] + 4096 * info.gex_srcrank && info.gex_entry->gex_nargs == 14);
  CHECK(!gex_AM_ReplyLong14(token, 176, buf, nbytes, base_address[info.gex_srcrank] + (1 << 19), GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13)));
}
static void all14(gex_Rank_t to) {
  char *const there = base_address[to] + 4096 * me;
  gex_Event_t event = GEX_EVENT_NO_OP;
  replies = 0;
  CHECK(!gex_AM_RequestShort14(tm, to, 193, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13)));
  CHECK(!gex_AM_RequestShort(tm, to, 193, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13)));
  CHECK(!gasnet_AMRequestShort14(to, 193, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13)));
  GASNET_BLOCKUNTIL(replies == 3);
  CHECK(!gex_AM_RequestMedium14(tm, to, 210, data, sizeof data, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13)));
  CHECK(!gex_AM_RequestMedium(tm, to, 210, data, sizeof data, &event, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13)));
  gex_Event_Wait(event);
  CHECK(!gasnet_AMRequestMedium(to, 210, data, sizeof data, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13)));
  GASNET_BLOCKUNTIL(replies == 6);
  memset(landing, 0, sizeof data);
  CHECK(!gex_AM_RequestLong14(tm, to, 227, data, sizeof data, there, GEX_EVENT_GROUP, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13)));
  gex_NBI_Wait(GEX_EC_AM, 0);
  CHECK(!gex_AM_RequestLong(tm, to, 227, data, sizeof data, there, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13)));
  CHECK(!gasnet_AMRequestLongAsync14(to, 227, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13)));
  CHECK(!gasnet_AMRequestLong(to, 227, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13)));
  GASNET_BLOCKUNTIL(replies == 10);
}

static void short_reply15(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12, gex_AM_Arg_t a13, gex_AM_Arg_t a14) { (void)token; CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11)); CHECK(a12 == T(12)); CHECK(a13 == T(13)); CHECK(a14 == T(14)); replies++; }
static void medium_reply15(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12, gex_AM_Arg_t a13, gex_AM_Arg_t a14) {
  (void)token;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11)); CHECK(a12 == T(12)); CHECK(a13 == T(13)); CHECK(a14 == T(14));
  check_payload(buf, nbytes);
  replies++;
}
static void long_reply15(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12, gex_AM_Arg_t a13, gex_AM_Arg_t a14) {
  CHECK(buf == landing);
  medium_reply15(token, buf, nbytes, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14);
}
static void short_request15(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12, gex_AM_Arg_t a13, gex_AM_Arg_t a14) { CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11)); CHECK(a12 == T(12)); CHECK(a13 == T(13)); CHECK(a14 == T(14)); CHECK(!gex_AM_ReplyShort15(token, 143, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14))); }
static void medium_request15(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12, gex_AM_Arg_t a13, gex_AM_Arg_t a14) {
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11)); CHECK(a12 == T(12)); CHECK(a13 == T(13)); CHECK(a14 == T(14));
  check_payload(buf, nbytes);
  CHECK(!gex_AM_ReplyMedium(token, 160, buf, nbytes, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14)));
}
static void long_request15(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12, gex_AM_Arg_t a13, gex_AM_Arg_t a14) {
  gex_Token_Info_t info;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11)); CHECK(a12 == T(12)); CHECK(a13 == T(13)); CHECK(a14 == T(14));
  check_payload(buf, nbytes);
  CHECK((gex_Token_Info(token, &info, GEX_TI_ALL) & GEX_TI_SRCRANK) && info.gex_is_req && info.gex_is_long && info.gex_ep == ep);
  CHECK(buf == base_address[me] + 4096 * info.gex_srcrank && info.gex_entry->gex_nargs == 15);
  CHECK(!gex_AM_ReplyLong15(token, 177, buf, nbytes, base_address[info.gex_srcrank] + (1 << 19), GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14)));
}
static void all15(gex_Rank_t to) {
  char *const there = base_address[to] + 4096 * me;
  gex_Event_t event = GEX_EVENT_NO_OP;
  replies = 0;
  CHECK(!gex_AM_RequestShort15(tm, to, 194, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14)));
  CHECK(!gex_AM_RequestShort(tm, to, 194, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14)));
  CHECK(!gasnet_AMRequestShort15(to, 194, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14)));
  GASNET_BLOCKUNTIL(replies == 3);
  CHECK(!gex_AM_RequestMedium15(tm, to, 211, data, sizeof data, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14)));
  CHECK(!gex_AM_RequestMedium(tm, to, 211, data, sizeof data, &event, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14)));
  gex_Event_Wait(event);
  CHECK(!gasnet_AMRequestMedium(to, 211, data, sizeof data, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14)));
  GASNET_BLOCKUNTIL(replies == 6);
  memset(landing, 0, sizeof data);
  CHECK(!gex_AM_RequestLong15(tm, to, 228, data, sizeof data, there, GEX_EVENT_GROUP, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14)));
  gex_NBI_Wait(GEX_EC_AM, 0);
  CHECK(!gex_AM_RequestLong(tm, to, 228, data, sizeof data, there, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14)));
  CHECK(!gasnet_AMRequestLongAsync15(to, 228, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14)));
  CHECK(!gasnet_AMRequestLong(to, 228, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14)));
  GASNET_BLOCKUNTIL(replies == 10);
}

static void short_reply16(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12, gex_AM_Arg_t a13, gex_AM_Arg_t a14, gex_AM_Arg_t a15) { (void)token; CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11)); CHECK(a12 == T(12)); CHECK(a13 == T(13)); CHECK(a14 == T(14)); CHECK(a15 == T(15)); replies++; }
static void medium_reply16(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12, gex_AM_Arg_t a13, gex_AM_Arg_t a14, gex_AM_Arg_t a15) {
  (void)token;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11)); CHECK(a12 == T(12)); CHECK(a13 == T(13)); CHECK(a14 == T(14)); CHECK(a15 == T(15));
  check_payload(buf, nbytes);
  replies++;
}
static void long_reply16(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12, gex_AM_Arg_t a13, gex_AM_Arg_t a14, gex_AM_Arg_t a15) {
  CHECK(buf == landing);
  medium_reply16(token, buf, nbytes, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15);
}
static void short_request16(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12, gex_AM_Arg_t a13, gex_AM_Arg_t a14, gex_AM_Arg_t a15) { CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11)); CHECK(a12 == T(12)); CHECK(a13 == T(13)); CHECK(a14 == T(14)); CHECK(a15 == T(15)); CHECK(!gex_AM_ReplyShort16(token, 144, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14), T(15))); }
static void medium_request16(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12, gex_AM_Arg_t a13, gex_AM_Arg_t a14, gex_AM_Arg_t a15) {
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11)); CHECK(a12 == T(12)); CHECK(a13 == T(13)); CHECK(a14 == T(14)); CHECK(a15 == T(15));
  check_payload(buf, nbytes);
  CHECK(!gex_AM_ReplyMedium(token, 161, buf, nbytes, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14), T(15)));
}
static void long_request16(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3, gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8, gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12, gex_AM_Arg_t a13, gex_AM_Arg_t a14, gex_AM_Arg_t a15) {
  gex_Token_Info_t info;
  CHECK(a0 == T(0)); CHECK(a1 == T(1)); CHECK(a2 == T(2)); CHECK(a3 == T(3)); CHECK(a4 == T(4)); CHECK(a5 == T(5)); CHECK(a6 == T(6)); CHECK(a7 == T(7)); CHECK(a8 == T(8)); CHECK(a9 == T(9)); CHECK(a10 == T(10)); CHECK(a11 == T(11)); CHECK(a12 == T(12)); CHECK(a13 == T(13)); CHECK(a14 == T(14)); CHECK(a15 == T(15));
  check_payload(buf, nbytes);
  CHECK((gex_Token_Info(token, &info, GEX_TI_ALL) & GEX_TI_SRCRANK) && info.gex_is_req && info.gex_is_long && info.gex_ep == ep);
  CHECK(buf == base_address[me] + 4096 * info.gex_srcrank && info.gex_entry->gex_nargs == 16);
  CHECK(!gex_AM_ReplyLong16(token, 178, buf, nbytes, base_address[info.gex_srcrank] + (1 << 19), GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14), T(15)));
}
static void all16(gex_Rank_t to) {
  char *const there = base_address[to] + 4096 * me;
  gex_Event_t event = GEX_EVENT_NO_OP;
  replies = 0;
  CHECK(!gex_AM_RequestShort16(tm, to, 195, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14), T(15)));
  CHECK(!gex_AM_RequestShort(tm, to, 195, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14), T(15)));
  CHECK(!gasnet_AMRequestShort16(to, 195, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14), T(15)));
  GASNET_BLOCKUNTIL(replies == 3);
  CHECK(!gex_AM_RequestMedium16(tm, to, 212, data, sizeof data, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14), T(15)));
  CHECK(!gex_AM_RequestMedium(tm, to, 212, data, sizeof data, &event, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14), T(15)));
  gex_Event_Wait(event);
  CHECK(!gasnet_AMRequestMedium(to, 212, data, sizeof data, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14), T(15)));
  GASNET_BLOCKUNTIL(replies == 6);
  memset(landing, 0, sizeof data);
  CHECK(!gex_AM_RequestLong16(tm, to, 229, data, sizeof data, there, GEX_EVENT_GROUP, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14), T(15)));
  gex_NBI_Wait(GEX_EC_AM, 0);
  CHECK(!gex_AM_RequestLong(tm, to, 229, data, sizeof data, there, GEX_EVENT_NOW, 0, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14), T(15)));
  CHECK(!gasnet_AMRequestLongAsync16(to, 229, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14), T(15)));
  CHECK(!gasnet_AMRequestLong(to, 229, data, sizeof data, there, T(0), T(1), T(2), T(3), T(4), T(5), T(6), T(7), T(8), T(9), T(10), T(11), T(12), T(13), T(14), T(15)));
  GASNET_BLOCKUNTIL(replies == 10);
}

#define ROW(index, name, m, flags) {index + m, (gex_AM_Fn_t)name##m, flags, m, NULL, #name #m}
#define ROWS(m)                                                                \
  ROW(128, short_reply, m, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY),             \
      ROW(145, medium_reply, m, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY),       \
      ROW(162, long_reply, m, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REPLY),           \
      ROW(179, short_request, m, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST),     \
      ROW(196, medium_request, m, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST),   \
      ROW(213, long_request, m, GEX_FLAG_AM_MEDLONG | GEX_FLAG_AM_REQUEST),

int main(int argc, char **argv) {
  gex_AM_Entry_t table[] = {ROWS(0) ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6) ROWS(7) ROWS(8) ROWS(9) ROWS(10)
                                ROWS(11) ROWS(12) ROWS(13) ROWS(14) ROWS(15) ROWS(16)};
  start(&argc, &argv);
  CHECK(gex_AM_MaxArgs() == 16);
  CHECK(!gex_EP_RegisterHandlers(ep, table, sizeof table / sizeof *table));
  for (gex_Rank_t rank = 0; rank < size; rank++) base_address[rank] = base_of(rank);
  for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(7 * i + 1);
  landing = base_address[me] + (1 << 19);
  meet();
  for (int round = 0; round < 20; round++)
    for (gex_Rank_t to = 0; to < size; to++) {
      all0(to);
      all1(to);
      all2(to);
      all3(to);
      all4(to);
      all5(to);
      all6(to);
      all7(to);
      all8(to);
      all9(to);
      all10(to);
      all11(to);
      all12(to);
      all13(to);
      all14(to);
      all15(to);
      all16(to);
    }
  return done();
}
