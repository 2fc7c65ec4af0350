/* All ranks send to all, faster than those can serve: each request is served once, and each has its reply. */
#include "test.h"

enum { MESSAGES = 20000 };
static int served, answers, notes;
static uint64_t sum;
static void ask(gex_Token_t token, void *buf, size_t n, gex_AM_Arg_t i) {
  CHECK(n == (size_t)(i % 300) && (!n || ((unsigned char *)buf)[n - 1] == (unsigned char)i));
  served++;
  gex_AM_ReplyShort1(token, 129, 0, i);
}
static void answer(gex_Token_t token, gex_AM_Arg_t i) {
  (void)token;
  sum += (uint64_t)i;
  answers++;
}
static void note(gex_Token_t token) {
  (void)token;
  notes++;
}

int main(int argc, char **argv) {
  gex_AM_Entry_t table[] = {{128, (gex_AM_Fn_t)ask, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1, NULL, "ask"},
                            {129, (gex_AM_Fn_t)answer, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 1, NULL, "answer"},
                            {130, (gex_AM_Fn_t)note, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "note"}};
  unsigned char data[300];
  start(&argc, &argv);
  CHECK(!gex_EP_RegisterHandlers(ep, table, 3));
  meet();
  for (int i = 0; i < MESSAGES; i++) {
    const gex_Rank_t to = (gex_Rank_t)(i * 7 + (int)me) % size;
    memset(data, i, sizeof data);
    CHECK(!gex_AM_RequestMedium1(tm, to, 128, data, (size_t)(i % 300), GEX_EVENT_NOW, 0, i));
    while (gex_AM_RequestShort0(tm, to, 130, GEX_FLAG_IMMEDIATE)) gasnet_AMPoll();
  }
  GASNET_BLOCKUNTIL(answers == MESSAGES);
  CHECK(sum == (uint64_t)MESSAGES * (MESSAGES - 1) / 2);
  meet();
  /* A note has no reply: it may come behind the barrier. */
  for (int i = 0; i < 100; i++) gasnet_AMPoll(), meet();
  CHECK(served == notes);
  return done();
}
