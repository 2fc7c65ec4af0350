/* Strided puts and gets of boxes of 0 to 4 dimensions, each side with strides of its own: packed, padded, in any order, backwards,
 * with nothing between; against plain loops. */
#include "test.h"
#include <gasnet_vis.h>

enum { BOXES = 400, PLACE = 1 << 14, MIDDLE = 1 << 13, DIMENSIONS = 4 };
static unsigned char out[PLACE], in[PLACE], expected[PLACE];
static unsigned state = 12345;
static unsigned below(unsigned n) {
  state = state * 1103515245u + 12345u;
  return (state >> 16) % n;
}

/* Strides under which no two elements overlap. */
static void lay(ptrdiff_t *strides, const size_t *counts, size_t levels, size_t element) {
  size_t order[DIMENSIONS], next = element;
  for (size_t i = 0; i < levels; i++) order[i] = i;
  if (below(3))
    for (size_t i = levels; i > 1; i--) {
      const size_t other = below((unsigned)i), was = order[i - 1];
      order[i - 1] = order[other], order[other] = was;
    }
  for (size_t i = 0; i < levels; i++) {
    next += below(2) ? 0 : below(4);
    strides[order[i]] = below(4) ? (ptrdiff_t)next : -(ptrdiff_t)next;
    next *= counts[order[i]] ? counts[order[i]] : 1;
  }
  CHECK(next < MIDDLE);
}

static void copy(unsigned char *to, const ptrdiff_t *to_strides, const unsigned char *from, const ptrdiff_t *from_strides,
                 size_t element, const size_t *counts, size_t levels) {
  if (!levels) {
    memcpy(to, from, element);
    return;
  }
  for (size_t i = 0; i < counts[levels - 1]; i++)
    copy(to + (ptrdiff_t)i * to_strides[levels - 1], to_strides, from + (ptrdiff_t)i * from_strides[levels - 1], from_strides,
         element, counts, levels - 1);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  state += me;
  meet();
  for (int box = 0; box < BOXES; box++) {
    const gex_Rank_t to = (me + (unsigned)box) % size;
    unsigned char *const there = (unsigned char *)base_of(to) + me * PLACE;
    size_t counts[DIMENSIONS], element = 1 + below(9);
    ptrdiff_t mine[DIMENSIONS], theirs[DIMENSIONS];
    const size_t levels = below(DIMENSIONS + 1);
    for (size_t i = 0; i < levels; i++) counts[i] = below(12) ? 1 + below(4) : 0;
    lay(mine, counts, levels, element);
    lay(theirs, counts, levels, element);
    for (size_t i = 0; i < PLACE; i++) out[i] = (unsigned char)below(256);
    memset(expected, box, PLACE);
    gasnet_memset(to, there, box, PLACE);
    copy(expected + MIDDLE, theirs, out + MIDDLE, mine, element, counts, levels);
    const int kind = (int)below(3);
    if (kind == 0) CHECK(!gex_VIS_StridedPutBlocking(tm, to, there + MIDDLE, theirs, out + MIDDLE, mine, element, counts, levels, 0));
    if (kind == 1)
      gex_Event_Wait(gex_VIS_StridedPutNB(tm, to, there + MIDDLE, theirs, out + MIDDLE, mine, element, counts, levels, GEX_FLAG_ENABLE_LEAF_LC));
    if (kind == 2) {
      CHECK(!gex_VIS_StridedPutNBI(tm, to, there + MIDDLE, theirs, out + MIDDLE, mine, element, counts, levels, GEX_FLAG_IMMEDIATE));
      gex_NBI_Wait(GEX_EC_ALL, 0);
    }
    CHECK(!gex_RMA_GetBlocking(tm, in, to, there, PLACE, 0) && !memcmp(in, expected, PLACE));
    /* And back, in the first layout again. */
    memset(in, ~box, PLACE);
    memset(expected, ~box, PLACE);
    copy(expected + MIDDLE, mine, out + MIDDLE, mine, element, counts, levels);
    if (kind == 0) CHECK(!gex_VIS_StridedGetBlocking(tm, in + MIDDLE, mine, to, there + MIDDLE, theirs, element, counts, levels, 0));
    if (kind == 1) gex_Event_Wait(gex_VIS_StridedGetNB(tm, in + MIDDLE, mine, to, there + MIDDLE, theirs, element, counts, levels, 0));
    if (kind == 2) {
      CHECK(!gex_VIS_StridedGetNBI(tm, in + MIDDLE, mine, to, there + MIDDLE, theirs, element, counts, levels, 0));
      gex_NBI_Wait(GEX_EC_GET, 0);
    }
    CHECK(!memcmp(in, expected, PLACE));
  }
  return done();
}
