/* Requests that may not wait, to a rank that does not look: at last they are refused, and what is refused is not sent. A commit that was
 * refused makes room by itself, so that a loop of it ends, whatever the handlers that it runs prepare. */
#include "test.h"

enum { SHORT = 180, MEDIUM, LONG, PREPARED, COMMITTED, ASK, ANSWER, MOST = 5000, SLOT = 64, FLAGS = 900000 };
static int got[5], sums[5];
static void count(int kind, void *buf, size_t n, gex_AM_Arg_t i) {
  if (kind) CHECK(n == SLOT && ((unsigned char *)buf)[SLOT - 1] == (unsigned char)i);
  got[kind]++, sums[kind] += i;
}
static void on_short(gex_Token_t token, gex_AM_Arg_t i) {
  (void)token;
  count(0, NULL, 0, i);
}
static void on_medium(gex_Token_t token, void *buf, size_t n, gex_AM_Arg_t i) {
  (void)token;
  count(1, buf, n, i);
}
static void on_long(gex_Token_t token, void *buf, size_t n, gex_AM_Arg_t i) {
  (void)token;
  count(2, buf, n, i);
}
static void on_prepared(gex_Token_t token, void *buf, size_t n, gex_AM_Arg_t i) {
  (void)token;
  count(3, buf, n, i);
}
static void on_committed(gex_Token_t token, void *buf, size_t n, gex_AM_Arg_t i) {
  (void)token;
  count(4, buf, n, i);
}

/* Handlers that run while a refused commit is tried again; how many have, for rank 0, which does not look. */
static volatile uint64_t *asked;
static int answers;
static void on_ask(gex_Token_t token) {
  gex_AM_SrcDesc_t sd = gex_AM_PrepareReplyMedium(token, NULL, SLOT, SLOT, NULL, 0, 0);
  memset(gex_AM_SrcDescAddr(sd), 0x33, SLOT);
  CHECK(!gex_AM_CommitReplyMedium0_v2(sd, ANSWER, SLOT, 0));
  ++*asked;
}
static void on_answer(gex_Token_t token, void *buf, size_t n) {
  (void)token;
  CHECK(n == SLOT && *(unsigned char *)buf == 0x33);
  answers++;
}

/* Commits that may not wait: one that is refused is tried again, then given up, left, or kept for later. */
static gex_AM_SrcDesc_t later;
static int commit(gex_Rank_t to, int i) {
  static unsigned char data[SLOT];
  memset(data, i, sizeof data);
  later = gex_AM_PrepareRequestMedium(tm, to, i % 2 ? data : NULL, SLOT, SLOT, i % 2 ? GEX_EVENT_NOW : NULL, 0, 1);
  CHECK(later != GEX_AM_SRCDESC_NO_OP);
  memcpy(gex_AM_SrcDescAddr(later), data, SLOT);
  return gex_AM_CommitRequestMedium1_v2(later, COMMITTED, SLOT, GEX_FLAG_IMMEDIATE, i);
}

/* Sends the i-th; 1: refused. */
static int send(int kind, gex_Rank_t to, int i) {
  unsigned char data[SLOT];
  gex_Event_t event = GEX_EVENT_INVALID;
  memset(data, i, sizeof data);
  if (kind == 4) return commit(to, i);
  if (kind == 0) return gex_AM_RequestShort1(tm, to, SHORT, GEX_FLAG_IMMEDIATE, i);
  if (kind == 1) return gex_AM_RequestMedium1(tm, to, MEDIUM, data, SLOT, GEX_EVENT_NOW, GEX_FLAG_IMMEDIATE, i);
  if (kind == 2) {
    const int refused = gex_AM_RequestLong1(tm, to, LONG, data, SLOT, base_of(to) + SLOT * i, &event, GEX_FLAG_IMMEDIATE, i);
    if (!refused) gex_Event_Wait(event);
    return refused;
  }
  void *const own = i % 2 ? data : NULL;
  gex_Event_t *const when = own ? GEX_EVENT_NOW : NULL;
  gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, to, own, SLOT, SLOT, when, GEX_FLAG_IMMEDIATE, 1);
  if (sd == GEX_AM_SRCDESC_NO_OP) return 1;
  memcpy(gex_AM_SrcDescAddr(sd), data, SLOT);
  CHECK(!gex_AM_CommitRequestMedium1_v2(sd, PREPARED, SLOT, GEX_FLAG_IMMEDIATE, i));
  return 0;
}

int main(int argc, char **argv) {
  gex_AM_Entry_t table[] = {{SHORT, (gex_AM_Fn_t)on_short, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1, NULL, NULL},
                            {MEDIUM, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1, NULL, NULL},
                            {LONG, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 1, NULL, NULL},
                            {PREPARED, (gex_AM_Fn_t)on_prepared, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1, NULL, NULL},
                            {COMMITTED, (gex_AM_Fn_t)on_committed, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1, NULL, NULL},
                            {ASK, (gex_AM_Fn_t)on_ask, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, NULL},
                            {ANSWER, (gex_AM_Fn_t)on_answer, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 0, NULL, NULL}};
  start(&argc, &argv);
  CHECK(!gex_EP_RegisterHandlers(ep, table, 7));
  /* In the segment of rank 0: 1 + how many of a kind were sent. */
  volatile uint64_t *const told = (volatile uint64_t *)(base_of(0) + FLAGS);
  /* In that of the sender: rank 0 does not look from now on. */
  const gex_Rank_t sender = size - 1;
  volatile uint64_t *const away = (volatile uint64_t *)(base_of(sender) + FLAGS + 64);
  asked = away + 5;
  memset(base_of(me), 0x77, FLAGS), memset(base_of(me) + FLAGS, 0, 128);
  meet();
  for (int kind = 0; kind < 5; kind++) {
    if (!me) gex_RMA_PutBlockingVal(tm, sender, (void *)(uintptr_t)(away + kind), 1, 8, 0);
    if (me == sender) {
      int sent = 0;
      while (!away[kind]) gasnet_AMPoll();
      for (int i = 0; i < 200; i++) gasnet_AMPoll(); /* takes what was replied before */
      while (sent < MOST && !send(kind, 0, sent)) sent++;
      CHECK((sent == MOST) == (size == 1));
      for (int i = 0; i < 3 && size > 1; i++) CHECK(send(kind, 0, sent));
      if (kind == 4 && size > 1) {
        for (int i = 0; i < 3; i++) CHECK(gex_AM_CommitRequestMedium1_v2(later, COMMITTED, SLOT, GEX_FLAG_IMMEDIATE, sent));
        CHECK(!gex_AM_CancelRequestMedium(later, 0) && commit(0, sent));
      }
      /* The payload that was refused is not there. */
      if (kind == 2 && size > 1) CHECK(gex_RMA_GetBlockingVal(tm, 0, base_of(0) + SLOT * sent, 1, 0) == 0x77);
      const int kept = kind == 4 && size > 1;
      gex_RMA_PutBlockingVal(tm, 0, (void *)(uintptr_t)(told + kind), (gex_RMA_Value_t)(1 + sent + kept), 8, 0);
      while (kept && gex_AM_CommitRequestMedium_v2(later, COMMITTED, SLOT, GEX_FLAG_IMMEDIATE, sent)) {}
    }
    if (!me) {
      while (!told[kind]) usleep(1000);
      const int sent = (int)told[kind] - 1;
      CHECK(got[kind] == (size == 1 ? sent : 0));
      const int asks = kind == 4 && size > 1 ? 3 : 0;
      for (int i = 0; i < asks; i++) CHECK(!gex_AM_RequestShort0(tm, sender, ASK, 0));
      while (asks && gex_RMA_GetBlockingVal(tm, sender, (void *)(uintptr_t)asked, 8, 0) < 3) usleep(1000);
      GASNET_BLOCKUNTIL(got[kind] == sent && answers == asks);
      CHECK(sums[kind] == sent * (sent - 1) / 2);
      if (size > 1) CHECK(sent >= 1 && sent < 100);
    }
    meet();
  }
  return done();
}
