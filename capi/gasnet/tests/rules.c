/* Rules of messages, one by one: what a handler may call, empty payloads, local completion, tokens, negotiated payloads. */
#include "test.h"
#include <gasnet_ratomic.h>

enum { ASK = 140, SHORT_ANSWER, ANY_ANSWER, LONG_ANSWER, LIMITS, CANCELS };
static gex_HSL_t lock = GEX_HSL_INITIALIZER;
static gex_AD_t ad;
static int cdata, answers, asked, limited;
static void *const anywhere[] = {NULL, (void *)8, (void *)(UINTPTR_MAX - 6)};

/* All that is allowed in a handler, with a handler-safe lock, and while a message is prepared. */
static void allowed(void) {
  gex_Client_t c;
  gex_EP_t e;
  gex_TM_t t;
  gex_Segment_t s;
  gex_RankInfo_t *ranks;
  gex_Rank_t count, index;
  void *owner, *local;
  uintptr_t bytes;
  static gex_HSL_t inner = GEX_HSL_INITIALIZER;
  CHECK(gasnet_mynode() == me && gasnet_nodes() == size && gex_System_QueryJobRank() == me && gex_System_QueryJobSize() == size);
  gex_HSL_Lock(&inner);
  gex_HSL_Unlock(&inner);
  CHECK(!gex_HSL_Trylock(&inner));
  gasnet_hsl_unlock(&inner);
  gasnet_hold_interrupts();
  gasnet_resume_interrupts();
  gasnet_QueryGexObjects(&c, &e, &t, &s);
  CHECK(c == client && e == ep && t == tm && s == segment);
  gasnet_QueryGexObjects(NULL, NULL, NULL, NULL);
  gex_System_QueryNbrhdInfo(&ranks, &count, &index);
  CHECK(count == size && ranks[index].gex_jobrank == me);
  gex_System_QueryHostInfo(NULL, &count, NULL), gex_System_QueryMyPosition(&count, &index, NULL, NULL);
  gex_Client_SetCData(client, &c), gex_EP_SetCData(ep, &e), gex_TM_SetCData(tm, &t), gex_Segment_SetCData(segment, &s);
  gex_AD_SetCData(ad, &s);
  CHECK(gex_Client_QueryCData(client) == &c && gex_EP_QueryCData(ep) == &e && gex_TM_QueryCData(tm) == &t);
  CHECK(gex_Segment_QueryCData(segment) == &s && gex_AD_QueryCData(ad) == &s);
  CHECK(gex_Client_QueryFlags(client) == GEX_FLAG_USES_GASNET1 && *gex_Client_QueryName(client) == 'R' && gex_Segment_QueryClient(segment) == client);
  CHECK(!gex_Segment_QueryFlags(segment) && gex_Segment_QueryAddr(segment) && gex_Segment_QuerySize(segment) == 1 << 20);
  CHECK(gex_EP_QueryClient(ep) == client && !gex_EP_QueryFlags(ep) && gex_EP_QuerySegment(ep) == segment && !gex_EP_QueryIndex(ep));
  CHECK(gex_TM_QueryClient(tm) == client && gex_TM_QueryEP(tm) == ep && !gex_TM_QueryFlags(tm));
  CHECK(gex_TM_QueryRank(tm) == me && gex_TM_QuerySize(tm) == size && gex_TM_Pair(ep, 0) == gex_TM_Pair(ep, 0));
  CHECK(gex_AD_QueryTM(ad) == tm && gex_AD_QueryDT(ad) == GEX_DT_U32 && gex_AD_QueryOps(ad) == GEX_OP_ADD);
  CHECK(gex_AD_QueryFlags(ad) == GEX_FLAG_AD_FAVOR_MY_RANK && gex_AM_MaxArgs() == 16 && gasnet_AMMaxArgs() == 16);
  CHECK(gex_AM_MaxRequestMedium(tm, GEX_RANK_INVALID, NULL, 0, 16) >= gex_AM_LUBRequestMedium());
  CHECK(gex_AM_MaxReplyLong(tm, me, GEX_EVENT_NOW, 0, 0) >= gex_AM_LUBReplyLong());
  CHECK(gex_System_GetVerboseErrors() == 1 && gex_System_QueryMaxThreads() >= 1 && !gex_System_QueryHiddenAMConcurrencyLevel());
  gex_System_SetVerboseErrors(1);
  CHECK(!gex_EP_QueryBoundSegmentNB(tm, me, &owner, &local, &bytes, GEX_FLAG_IMMEDIATE));
  CHECK(owner == gex_Segment_QueryAddr(segment) && bytes == 1 << 20);
}

/* A token tells at least what is asked for. */
static void inform(gex_Token_t token, int is_req, int is_long, gex_AM_Index_t index) {
  const gex_TI_t needed[] = {GEX_TI_SRCRANK, GEX_TI_EP, GEX_TI_SRCRANK | GEX_TI_EP, 0, GEX_TI_ALL};
  for (int i = 0; i < 5; i++) {
    gex_Token_Info_t info;
    memset(&info, 0x55, sizeof info);
    const gex_TI_t told = gex_Token_Info(token, &info, needed[i]);
    CHECK(!(~told & needed[i] & (GEX_TI_SRCRANK | GEX_TI_EP)));
    if (told & GEX_TI_SRCRANK) CHECK(info.gex_srcrank < size);
    if (told & GEX_TI_EP) CHECK(info.gex_ep == ep);
    if (told & GEX_TI_IS_REQ) CHECK(info.gex_is_req == is_req);
    if (told & GEX_TI_IS_LONG) CHECK(info.gex_is_long == is_long);
    if (!(told & GEX_TI_ENTRY)) continue;
    CHECK(info.gex_entry->gex_index == index && info.gex_entry->gex_cdata == &cdata && !strcmp(info.gex_entry->gex_name, "rule"));
  }
}

static gex_Event_t replied; /* of a reply; a handler may not test it */
static void ask(gex_Token_t token, void *buf, size_t n, gex_AM_Arg_t at) {
  gex_Token_Info_t info;
  allowed();
  gex_Token_Info(token, &info, GEX_TI_ALL);
  inform(token, 1, info.gex_is_long, ASK);
  CHECK(n == 0);
  if (info.gex_is_long) CHECK(buf == anywhere[at]);
  asked++;
  /* Nothing to send either, to an address of any kind; local completion at once, or as an event. */
  if (info.gex_is_long) CHECK(!gex_AM_ReplyLong1(token, LONG_ANSWER, NULL, 0, anywhere[at], at ? &replied : GEX_EVENT_NOW, 0, at));
  else if (at) CHECK(!gex_AM_ReplyMedium1(token, ANY_ANSWER, NULL, 0, &replied, GEX_FLAG_IMMEDIATE, at));
  else CHECK(!gex_AM_ReplyShort1(token, SHORT_ANSWER, GEX_FLAG_IMMEDIATE, at));
}
static void short_answer(gex_Token_t token, gex_AM_Arg_t at) {
  CHECK(!at);
  inform(token, 0, 0, SHORT_ANSWER);
  allowed();
  answers++;
}
static void any_answer(gex_Token_t token, void *buf, size_t n, gex_AM_Arg_t at) {
  (void)buf;
  CHECK(at && !n);
  inform(token, 0, 0, ANY_ANSWER);
  answers++;
}
static void long_answer(gex_Token_t token, void *buf, size_t n, gex_AM_Arg_t at) {
  CHECK(buf == anywhere[at] && !n);
  inform(token, 0, 1, LONG_ANSWER);
  allowed();
  answers++;
}

/* Limits of a token are those of its sender. */
static void limits(gex_Token_t token) {
  gex_Token_Info_t info;
  gex_Event_t event;
  gex_Token_Info(token, &info, GEX_TI_SRCRANK);
  const gex_Event_t *const options[] = {GEX_EVENT_NOW, NULL, &event};
  const gex_Flags_t flags[] = {0, GEX_FLAG_IMMEDIATE, GEX_FLAG_AM_PREPARE_LEAST_CLIENT, GEX_FLAG_AM_PREPARE_LEAST_ALLOC};
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 4; j++)
      for (unsigned int n = 0; n <= 16; n++) {
        const size_t medium = gex_AM_MaxReplyMedium(tm, info.gex_srcrank, options[i], flags[j], n);
        const size_t most = gex_AM_MaxReplyLong(gex_TM_Pair(ep, 0), info.gex_srcrank, options[i], flags[j], n);
        CHECK(gex_Token_MaxReplyMedium(token, options[i], flags[j], n) == medium);
        CHECK(gex_Token_MaxReplyLong(token, options[i], flags[j], n) == most);
      }
  limited++;
}

/* A message that was prepared and cancelled leaves the reply free. */
static void cancels(gex_Token_t token, void *buf, size_t n) {
  CHECK(n == 3 && !memcmp(buf, "abc", 3));
  gex_AM_SrcDesc_t sd = gex_AM_PrepareReplyMedium(token, NULL, 1, 64, NULL, 0, 0);
  allowed();
  CHECK(gex_AM_SrcDescSize(sd) >= 1 && gex_AM_SrcDescSize(sd) <= 64 && !gex_AM_CancelReplyMedium(sd, 0));
  sd = gex_AM_PrepareReplyLong(token, buf, 1, 3, NULL, GEX_EVENT_NOW, GEX_FLAG_IMMEDIATE, 16);
  CHECK(!gex_AM_CancelReplyLong(sd, 0));
  sd = gex_AM_PrepareReplyMedium(token, buf, 1, 3, &replied, 0, 1);
  CHECK(gex_AM_SrcDescAddr(sd) == buf && !gex_AM_CommitReplyMedium1_v2(sd, ANY_ANSWER, 0, 0, 1));
}

static void negotiate(gex_Rank_t to) {
  static char mine[100000] = "abc";
  gex_Event_t event = GEX_EVENT_NO_OP;
  gex_Event_t *const options[] = {GEX_EVENT_NOW, GEX_EVENT_GROUP, &event};
  for (int i = 0; i < 3; i++) {
    answers = 0;
    /* More than fits may be wished; less than was prepared is sent. */
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, to, mine, 3, sizeof mine, options[i], 0, 0);
    allowed();
    CHECK(gex_AM_SrcDescAddr(sd) == mine && gex_AM_SrcDescSize(sd) >= 3 && gex_AM_SrcDescSize(sd) <= sizeof mine);
    CHECK(!gex_AM_CommitRequestMedium0_v2(sd, CANCELS, 3, 0));
    if (i == 1) gex_NBI_Wait(GEX_EC_AM, 0);
    if (i == 2) gex_Event_Wait(event), event = GEX_EVENT_NO_OP;
    GASNET_BLOCKUNTIL(answers == 1);
    /* An address that is said at the commit alone; no bytes, so it may be any. */
    do sd = gex_AM_PrepareRequestLong(gex_TM_Pair(ep, 0), to, mine, 1, 8, NULL, options[i], GEX_FLAG_IMMEDIATE, 1);
    while (sd == GEX_AM_SRCDESC_NO_OP);
    CHECK(!gex_AM_CommitRequestLong1_v2(sd, ASK, 0, anywhere[i], 0, i));
    if (i == 2) gex_Event_Wait(event);
    gex_NBI_Wait(GEX_EC_AM, 0);
    GASNET_BLOCKUNTIL(answers == 2);
    CHECK(!gex_AM_CancelRequestLong(gex_AM_PrepareRequestLong(tm, to, NULL, 9, 99, base_of(to), NULL, 0, 3), 0));
    CHECK(!gex_AM_CancelRequestMedium(gex_AM_PrepareRequestMedium(tm, to, mine, 9, 99, options[i], 0, 3), 0));
  }
}

int main(void) {
  gex_AM_Entry_t table[] = {{ASK, (gex_AM_Fn_t)ask, GEX_FLAG_AM_MEDLONG | GEX_FLAG_AM_REQUEST, 1, &cdata, "rule"},
                            {SHORT_ANSWER, (gex_AM_Fn_t)short_answer, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 1, &cdata, "rule"},
                            {ANY_ANSWER, (gex_AM_Fn_t)any_answer, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 1, &cdata, "rule"},
                            {LONG_ANSWER, (gex_AM_Fn_t)long_answer, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REPLY, 1, &cdata, "rule"},
                            {LIMITS, (gex_AM_Fn_t)limits, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, NULL},
                            {CANCELS, (gex_AM_Fn_t)cancels, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 0, NULL, NULL}};
  /* Arguments of main are optional. */
  CHECK(!gex_Client_Init(&client, &ep, &tm, "RULES_1", NULL, NULL, GEX_FLAG_USES_GASNET1));
  me = gex_TM_QueryRank(tm), size = gex_TM_QuerySize(tm);
  CHECK(!gex_Segment_Attach(&segment, tm, 1 << 20) && !gex_EP_RegisterHandlers(ep, table, 6));
  /* The library has a copy. A taken index is refused. */
  memset(table, 0, sizeof table);
  gex_AM_Entry_t again = {LIMITS, (gex_AM_Fn_t)limits, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, NULL};
  gex_System_SetVerboseErrors(0);
  CHECK(!gex_System_GetVerboseErrors() && gex_EP_RegisterHandlers(ep, &again, 1));
  gex_System_SetVerboseErrors(1);
  gex_AD_Create(&ad, tm, GEX_DT_U32, GEX_OP_ADD, GEX_FLAG_AD_FAVOR_MY_RANK);
  CHECK(!gex_AD_QueryCData(ad));
  meet();
  gex_HSL_Lock(&lock);
  allowed();
  gex_HSL_Unlock(&lock);
  for (gex_Rank_t to = 0; to < size; to++) {
    gex_Event_t event = GEX_EVENT_NO_OP;
    gex_Event_t *const options[] = {GEX_EVENT_NOW, GEX_EVENT_GROUP, &event};
    for (int i = 0; i < 3; i++) {
      answers = 0;
      CHECK(!gex_AM_RequestMedium1(tm, to, ASK, NULL, 0, options[i], 0, i));
      if (i == 2) gex_Event_Wait(event), event = GEX_EVENT_NO_OP;
      while (gex_AM_RequestLong1(tm, to, ASK, NULL, 0, anywhere[i], options[i], GEX_FLAG_IMMEDIATE, i)) gasnet_AMPoll();
      if (i == 2) gex_Event_Wait(event);
      while (gex_NBI_Test(GEX_EC_AM, 0)) gasnet_AMPoll();
      CHECK(!gasnet_AMRequestLong1(to, ASK, NULL, 0, anywhere[i], i) && !gasnet_AMRequestLongAsync1(to, ASK, NULL, 0, anywhere[i], i));
      CHECK(!gasnet_AMRequestMedium1(to, ASK, NULL, 0, i));
      GASNET_BLOCKUNTIL(answers == 5);
    }
    CHECK(!gex_AM_RequestShort0(tm, to, LIMITS, 0));
    negotiate(to);
  }
  GASNET_BLOCKUNTIL(asked == 18 * (int)size && limited == (int)size);
  meet();
  gex_AD_Destroy(ad);
  return done();
}
