/* Medium and long payloads of many lengths, many in flight, each checked; addresses and buffers of empty ones. */
#include "test.h"

enum { MEDIUM = 140, LONG, EMPTY, ANSWER, MEDIUM_ANSWER, LONG_ANSWER, DEPTH = 8, MAX_LONG = 100000 };
static int answers;
static unsigned char out[MAX_LONG + 64];
static char *mine;

static unsigned char byte_of(size_t i, unsigned seed) { return (unsigned char)(i * 31 + seed * 7 + (i >> 8)); }
static void fill(unsigned char *to, size_t n, unsigned seed) {
  for (size_t i = 0; i < n; i++) to[i] = byte_of(i, seed);
}
static void check(const void *buf, size_t n, unsigned seed) {
  for (size_t i = 0; i < n; i++) CHECK(((const unsigned char *)buf)[i] == byte_of(i, seed));
}
static void medium(gex_Token_t token, void *buf, size_t n, gex_AM_Arg_t len, gex_AM_Arg_t seed) {
  CHECK((size_t)len == n && (uintptr_t)buf % 16 == 0);
  check(buf, n, (unsigned)seed);
  memset(buf, 0, n); /* it is the handler's */
  fill((unsigned char *)buf, n, (unsigned)seed + 1);
  gex_AM_ReplyMedium2(token, MEDIUM_ANSWER, buf, n, GEX_EVENT_NOW, 0, len, seed + 1);
}
static void long_(gex_Token_t token, void *buf, size_t n, gex_AM_Arg_t len, gex_AM_Arg_t seed, gex_AM_Arg_t high, gex_AM_Arg_t low) {
  char *const to = (char *)(uintptr_t)((uint64_t)(uint32_t)high << 32 | (uint32_t)low);
  CHECK((size_t)len == n);
  check(buf, n, (unsigned)seed);
  gex_AM_ReplyLong2(token, LONG_ANSWER, buf, n, to, GEX_EVENT_NOW, 0, len, seed);
}
static void medium_answer(gex_Token_t token, void *buf, size_t n, gex_AM_Arg_t len, gex_AM_Arg_t seed) {
  (void)token;
  CHECK((size_t)len == n);
  check(buf, n, (unsigned)seed);
  answers++;
}
static void empty(gex_Token_t token, void *buf, size_t n, gex_AM_Arg_t high, gex_AM_Arg_t low) {
  CHECK(!n && (uint64_t)(uintptr_t)buf == ((uint64_t)(uint32_t)high << 32 | (uint32_t)low));
  gex_AM_ReplyShort0(token, ANSWER, 0);
}
static void answer(gex_Token_t token) {
  (void)token;
  answers++;
}
#define SPLIT(p) (gex_AM_Arg_t)((uint64_t)(uintptr_t)(p) >> 32), (gex_AM_Arg_t)(uintptr_t)(p)

int main(int argc, char **argv) {
  gex_AM_Entry_t table[] = {
      {MEDIUM, (gex_AM_Fn_t)medium, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 2, NULL, "medium"},
      {LONG, (gex_AM_Fn_t)long_, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 4, NULL, "long"},
      {EMPTY, (gex_AM_Fn_t)empty, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 2, NULL, "empty"},
      {ANSWER, (gex_AM_Fn_t)answer, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0, NULL, "answer"},
      {MEDIUM_ANSWER, (gex_AM_Fn_t)medium_answer, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 2, NULL, "medium answer"},
      {LONG_ANSWER, (gex_AM_Fn_t)medium_answer, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REPLY, 2, NULL, "long answer"}};
  start(&argc, &argv);
  CHECK(!gex_EP_RegisterHandlers(ep, table, sizeof table / sizeof *table));
  mine = base_of(me);
  const gex_Rank_t to = (me + 1) % size;
  char *const there = base_of(to);
  const size_t max = gex_AM_MaxRequestMedium(tm, to, GEX_EVENT_NOW, 0, 2);
  meet();
  size_t lens[64], count = 0;
  for (size_t n = 0; n <= 48; n++) lens[count++] = n;
  for (size_t n = 100; n < max; n *= 3) lens[count++] = n;
  lens[count++] = max;
  for (size_t i = 0; i < count; i++) {
    answers = 0;
    for (unsigned depth = 0; depth < DEPTH; depth++) {
      fill(out, lens[i], depth);
      CHECK(!gex_AM_RequestMedium2(tm, to, MEDIUM, out, lens[i], GEX_EVENT_NOW, 0, (int)lens[i], (int)depth));
      memset(out, 0xee, lens[i]); /* it is free */
    }
    GASNET_BLOCKUNTIL(answers == DEPTH);
  }
  const size_t longs[] = {0, 1, 8, 63, 4096, 65537, MAX_LONG};
  for (size_t i = 0; i < sizeof longs / sizeof *longs; i++) {
    answers = 0;
    for (unsigned depth = 0; depth < 4; depth++) {
      char *const at = there + depth * (MAX_LONG + 8), *const back = mine + (4 + depth) * (MAX_LONG + 8);
      fill(out, longs[i], depth);
      CHECK(!gex_AM_RequestLong4(tm, to, LONG, out, longs[i], at, GEX_EVENT_NOW, 0, (int)longs[i], (int)depth, SPLIT(back)));
    }
    GASNET_BLOCKUNTIL(answers == 4);
  }
  /* In the segment, at its end, and nowhere. */
  char *const addresses[] = {there, there + 12345, there + (1 << 20), NULL, (char *)0x123456789abcdef0u, (char *)-1};
  answers = 0;
  for (int i = 0; i < 6; i++) CHECK(!gex_AM_RequestLong2(tm, to, EMPTY, NULL, 0, addresses[i], GEX_EVENT_NOW, 0, SPLIT(addresses[i])));
  GASNET_BLOCKUNTIL(answers == 6);
  return done();
}
