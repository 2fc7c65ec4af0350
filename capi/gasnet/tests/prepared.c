/* Negotiated payloads, of the program's memory and of the library's; cancelled ones. */
#include "test.h"

enum { ASK = 150, ANSWER, LONG_ASK, LONG_ANSWER };
static int answers;
static void check(const unsigned char *at, size_t n) {
  for (size_t i = 0; i < n; i++) CHECK(at[i] == (unsigned char)(i + n));
}
static void fill(void *to, size_t n) {
  for (size_t i = 0; i < n; i++) ((unsigned char *)to)[i] = (unsigned char)(i + n);
}
static void ask(gex_Token_t token, void *buf, size_t n, gex_AM_Arg_t one) {
  CHECK(one == 11);
  check((unsigned char *)buf, n);
  gex_AM_SrcDesc_t sd = gex_AM_PrepareReplyMedium(token, NULL, n, n, NULL, 0, 2);
  CHECK(gex_AM_SrcDescSize(sd) == n && (uintptr_t)gex_AM_SrcDescAddr(sd) % 16 == 0);
  memcpy(gex_AM_SrcDescAddr(sd), buf, n);
  CHECK(!gex_AM_CommitReplyMedium2_v2(sd, ANSWER, n, 0, 1, 2));
}
static void answer(gex_Token_t token, void *buf, size_t n, gex_AM_Arg_t one, gex_AM_Arg_t two) {
  (void)token;
  CHECK(one == 1 && two == 2);
  check((unsigned char *)buf, n);
  answers++;
}
static void long_ask(gex_Token_t token, void *buf, size_t n) {
  gex_Token_Info_t info;
  gex_Token_Info(token, &info, GEX_TI_SRCRANK);
  check((unsigned char *)buf, n);
  /* The same place in the segment of the rank that asks; segments of this test are equal. */
  char *const to = (char *)gex_TM_QueryCData(tm) + info.gex_srcrank * sizeof(void *);
  gex_AM_SrcDesc_t sd = gex_AM_PrepareReplyLong(token, buf, n, n + 5, NULL, GEX_EVENT_NOW, 0, 0);
  CHECK(gex_AM_SrcDescAddr(sd) == buf && gex_AM_SrcDescSize(sd) == n + 5);
  if (n == 100) {
    /* The library's buffer is as long as a message may be. */
    CHECK(!gex_AM_CancelReplyLong(sd, 0));
    sd = gex_AM_PrepareReplyLong(token, NULL, n, (size_t)-1, NULL, NULL, 0, 0);
    CHECK(gex_AM_SrcDescSize(sd) == gex_Token_MaxReplyLong(token, NULL, 0, 0) && (uintptr_t)gex_AM_SrcDescAddr(sd) % 16 == 0);
    memcpy(gex_AM_SrcDescAddr(sd), buf, n);
  }
  CHECK(!gex_AM_CommitReplyLong0_v2(sd, LONG_ANSWER, n, *(char **)to + (n == 100 ? 50000 : 0), GEX_FLAG_IMMEDIATE));
}
static void long_answer(gex_Token_t token, void *buf, size_t n) {
  (void)token;
  check((unsigned char *)buf, n);
  answers++;
}

int main(int argc, char **argv) {
  gex_AM_Entry_t table[] = {
      {ASK, (gex_AM_Fn_t)ask, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1, NULL, "ask"},
      {ANSWER, (gex_AM_Fn_t)answer, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 2, NULL, "answer"},
      {LONG_ASK, (gex_AM_Fn_t)long_ask, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 0, NULL, "long ask"},
      {LONG_ANSWER, (gex_AM_Fn_t)long_answer, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REPLY, 0, NULL, "long answer"}};
  static unsigned char mine[40000];
  static char *bases[64];
  start(&argc, &argv);
  CHECK(!gex_EP_RegisterHandlers(ep, table, 4));
  for (gex_Rank_t rank = 0; rank < size; rank++) bases[rank] = base_of(rank) + (1 << 19);
  gex_TM_SetCData(tm, bases);
  meet();
  for (gex_Rank_t to = 0; to < size; to++) {
    const size_t max = gex_AM_MaxRequestMedium(tm, to, NULL, GEX_FLAG_AM_PREPARE_LEAST_ALLOC, 1);
    const size_t lens[] = {1, 40, 500, max};
    for (int i = 0; i < 4; i++) {
      gex_Event_t event = GEX_EVENT_NO_OP;
      gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, to, NULL, lens[i], 2 * max, NULL, 0, 1);
      CHECK(gex_AM_SrcDescSize(sd) >= lens[i]);
      fill(gex_AM_SrcDescAddr(sd), lens[i]);
      answers = 0;
      gex_AM_CommitRequestMedium1(sd, ASK, lens[i], 11);
      fill(mine, lens[i]);
      sd = gex_AM_PrepareRequestMedium(tm, to, mine, 1, max, &event, 0, 1);
      CHECK(gex_AM_SrcDescAddr(sd) == mine);
      CHECK(!gex_AM_CommitRequestMedium_v2(sd, ASK, lens[i], 0, 11));
      gex_Event_Wait(event);
      GASNET_BLOCKUNTIL(answers == 2);
      CHECK(!gex_AM_CancelRequestMedium(gex_AM_PrepareRequestMedium(tm, to, NULL, 1, 9, NULL, 0, 0), 0));
    }
    fill(mine, sizeof mine);
    char *const at = base_of(to) + 50000 * me;
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestLong(tm, to, mine, sizeof mine, sizeof mine, at, GEX_EVENT_NOW, 0, 0);
    answers = 0;
    CHECK(!gex_AM_CommitRequestLong0_v2(sd, LONG_ASK, sizeof mine, at, 0));
    /* The library's own, longer than any medium one. */
    sd = gex_AM_PrepareRequestLong(tm, to, NULL, sizeof mine, sizeof mine, at, NULL, GEX_FLAG_IMMEDIATE, 0);
    CHECK(gex_AM_SrcDescSize(sd) == sizeof mine);
    fill(gex_AM_SrcDescAddr(sd), sizeof mine);
    GASNET_BLOCKUNTIL(1);
    gex_AM_CommitRequestLong(sd, LONG_ASK, sizeof mine, at);
    GASNET_BLOCKUNTIL(answers == 2);
    sd = gex_AM_PrepareRequestLong(tm, to, NULL, 100, 100, NULL, NULL, 0, 0);
    fill(gex_AM_SrcDescAddr(sd), 100);
    GASNET_BLOCKUNTIL(1); /* does not poll: the condition holds */
    CHECK(!gex_AM_CommitRequestLong_v2(sd, LONG_ASK, 100, at + 45000, 0));
    GASNET_BLOCKUNTIL(answers == 3);
  }
  return done();
}
