/* Puts, gets, values and memset of GASNet-EX and GASNet-1: blocking, with events, implicit, in regions; from
 * memory inside and outside of the segment, to each rank. */
#include "test.h"

enum { SLOT = 65536 };
static unsigned char out[SLOT], in[SLOT];

static void fill(unsigned char *to, size_t n, unsigned seed) {
  for (size_t i = 0; i < n; i++) to[i] = (unsigned char)(i * 13 + seed);
}

static void transfers(gex_Rank_t to, size_t n, size_t off, unsigned char *from, unsigned char *back) {
  char *const there = base_of(to) + me * SLOT + off;
  gex_Event_t event = GEX_EVENT_NO_OP, events[3];
  fill(from, n, 1);
  CHECK(!gex_RMA_PutBlocking(tm, to, there, from, n, 0));
  CHECK(!gex_RMA_GetBlocking(tm, back, to, there, n, 0) && !memcmp(from, back, n));
  fill(from, n, 2);
  events[0] = gex_RMA_PutNB(tm, to, there, from, n, &event, 0);
  gex_Event_Wait(event);
  gex_Event_Wait(events[0]);
  gex_Event_Wait(gex_RMA_GetNB(tm, back, to, there, n, 0));
  CHECK(!memcmp(from, back, n));
  fill(from, n, 3);
  events[0] = gex_RMA_PutNB(tm, to, there, from, n, GEX_EVENT_DEFER, 0);
  events[1] = GEX_EVENT_INVALID;
  gex_Event_WaitAll(events, 2, 0);
  CHECK(events[0] == GEX_EVENT_INVALID && !gex_Event_TestAll(events, 2, 0) && !gex_Event_TestSome(events, 2, 0));
  CHECK(!gex_RMA_GetNBI(tm, back, to, there, n, 0));
  gex_NBI_Wait(GEX_EC_GET, 0);
  CHECK(!memcmp(from, back, n));
  fill(from, n, 4);
  gex_NBI_BeginAccessRegion(0);
  CHECK(!gex_RMA_PutNBI(tm, to, there, from, n, GEX_EVENT_GROUP, GEX_FLAG_IMMEDIATE));
  gex_NBI_Wait(GEX_EC_LC, 0);
  gex_Event_Wait(gex_NBI_EndAccessRegion(0));
  gasnet_get(back, to, there, n);
  CHECK(!memcmp(from, back, n));
  fill(from, n, 5);
  gasnet_wait_syncnb(gasnet_put_nb_bulk(to, there, from, n));
  gasnet_get_nbi_bulk(back, to, there, n);
  while (gasnet_try_syncnbi_all() != GASNET_OK) {}
  CHECK(!memcmp(from, back, n));
  gasnet_memset(to, there, 0x5a, n);
  gasnet_get_bulk(back, to, there, n);
  for (size_t i = 0; i < n; i++) CHECK(back[i] == 0x5a);
}

static void values(gex_Rank_t to) {
  char *const there = base_of(to) + me * SLOT;
  for (size_t n = 1; n <= 8; n++) {
    const uint64_t mask = n == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * n) - 1, value = 0x8877665544332211u;
    gasnet_memset(to, there, 0, 16);
    CHECK(!gex_RMA_PutBlockingVal(tm, to, there, value, n, 0));
    CHECK(gex_RMA_GetBlockingVal(tm, to, there, 8, 0) == (value & mask));
    CHECK(!gex_RMA_PutNBIVal(tm, to, there, ~value, n, 0));
    gex_NBI_Wait(GEX_EC_PUT, 0);
    CHECK(gex_RMA_GetBlockingVal(tm, to, there, n, 0) == (~value & mask));
    gex_Event_Wait(gex_RMA_PutNBVal(tm, to, there, value, n, 0));
    CHECK(gasnet_wait_syncnb_valget(gasnet_get_nb_val(to, there, n)) == (value & mask));
    gasnet_put_val(to, there, 7, n);
    CHECK(gasnet_get_val(to, there, n) == 7);
  }
}

/* Lengths that the compiler knows, at both ends of the segment, where one comparison does not decide. */
#define EDGES(n)                                                                                          \
  for (int at = 0; at < 40; at++) {                                                                       \
    char *const first = base_of(to) + at, *const last = first + (1 << 20) - n - 2 * at;                   \
    unsigned char mine[n], back[n];                                                                       \
    gex_RMA_Value_t value;                                                                                \
    fill(mine, n, (unsigned)at + n);                                                                      \
    CHECK(!gex_RMA_PutBlocking(tm, to, first, mine, n, 0) && !gex_RMA_PutBlocking(tm, to, last, mine, n, 0)); \
    CHECK(!gex_RMA_GetBlocking(tm, back, to, first, n, 0) && !memcmp(mine, back, n));                     \
    CHECK(!gex_RMA_GetBlocking(tm, back, to, last, n, 0) && !memcmp(mine, back, n));                      \
    if (n > 8) continue;                                                                                  \
    value = gex_RMA_GetBlockingVal(tm, to, first, n > 8 ? 8 : n, 0);                                      \
    CHECK(!gex_RMA_PutBlockingVal(tm, to, last, value + 1, n > 8 ? 8 : n, 0));                            \
    CHECK((unsigned char)gex_RMA_GetBlockingVal(tm, to, last, 1, 0) == (unsigned char)(mine[0] + 1));     \
  }
static void edges(gex_Rank_t to) {
  EDGES(1) EDGES(2) EDGES(3) EDGES(4) EDGES(5) EDGES(7) EDGES(8) EDGES(9) EDGES(15) EDGES(16) EDGES(17)
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  unsigned char *const inside = (unsigned char *)base_of(me) + (1 << 19);
  meet();
  for (gex_Rank_t to = 0; to < size; to++) {
    for (size_t n = 0; n <= 20; n++)
      for (size_t off = 0; off < 9; off++) transfers(to, n, off, out, in);
    for (size_t n = 100; n <= SLOT; n = n < SLOT / 3 ? n * 3 + 1 : n < SLOT ? SLOT : n + 1) transfers(to, n, 0, out, in);
    transfers(to, 30000, 3, inside, inside + SLOT);
    transfers(to, 30000, 3, inside, in);
    values(to);
    CHECK(!gex_RMA_PutBlocking(gex_TM_Pair(ep, 0), to, base_of(to) + me * SLOT, out, 8, 0));
  }
  meet();
  for (gex_Rank_t from = 0; from < size; from++, meet())
    if (from == me)
      for (gex_Rank_t to = 0; to < size; to++) edges(to);
  /* What others put is there behind a barrier. */
  for (gex_Rank_t to = 0; to < size; to++) gex_RMA_PutBlockingVal(tm, to, base_of(to) + 8 * me, 1000 + me, 8, 0);
  meet();
  for (gex_Rank_t from = 0; from < size; from++) CHECK(((uint64_t *)base_of(me))[from] == 1000 + from);
  return done();
}
