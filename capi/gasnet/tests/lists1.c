/* Lists and strides of GASNet-1: put by one rank, read back by the other calls. */
#include "test.h"
#include <gasnet_vis.h>

enum { ROWS = 5, BYTES = 24, ROW = 64 };

int main(int argc, char **argv) {
  char from[ROWS][ROW], back[ROWS * BYTES], *there;
  gasnet_memvec_t far[ROWS], near[ROWS], one[1];
  void *far_rows[ROWS], *near_rows[ROWS], *flat[1];
  const size_t far_strides[1] = {2 * ROW}, near_strides[1] = {ROW}, flat_strides[1] = {BYTES}, count[2] = {BYTES, ROWS};
  start(&argc, &argv);
  there = base_of((me + 1) % size) + 8192;
  flat[0] = one[0].addr = back, one[0].len = sizeof back;
  for (int i = 0; i < ROWS; i++) {
    memset(from[i], 'a' + i + (int)me, ROW);
    far_rows[i] = far[i].addr = there + 2 * ROW * i, near_rows[i] = near[i].addr = from[i];
    far[i].len = near[i].len = BYTES;
  }
  const gex_Rank_t to = (me + 1) % size;
  for (int way = 0; way < 9; way++) {
    memset(back, 0, sizeof back);
    gasnet_memset(to, there, 0, 2 * ROW * ROWS);
    switch (way) {
      case 0: gasnet_putv_bulk(to, ROWS, far, ROWS, near), gasnet_getv_bulk(1, one, to, ROWS, far); break;
      case 1: gasnet_wait_syncnb(gasnet_putv_nb_bulk(to, ROWS, far, ROWS, near)), gasnet_wait_syncnb(gasnet_getv_nb_bulk(1, one, to, ROWS, far)); break;
      case 2: gasnet_putv_nbi_bulk(to, ROWS, far, ROWS, near), gasnet_wait_syncnbi_puts(), gasnet_getv_nbi_bulk(1, one, to, ROWS, far); break;
      case 3: gasnet_puti_bulk(to, ROWS, far_rows, BYTES, ROWS, near_rows, BYTES), gasnet_geti_bulk(1, flat, sizeof back, to, ROWS, far_rows, BYTES); break;
      case 4:
        gasnet_wait_syncnb(gasnet_puti_nb_bulk(to, ROWS, far_rows, BYTES, ROWS, near_rows, BYTES));
        gasnet_wait_syncnb(gasnet_geti_nb_bulk(1, flat, sizeof back, to, ROWS, far_rows, BYTES));
        break;
      case 5: gasnet_puti_nbi_bulk(to, ROWS, far_rows, BYTES, ROWS, near_rows, BYTES), gasnet_geti_nbi_bulk(1, flat, sizeof back, to, ROWS, far_rows, BYTES); break;
      case 6: gasnet_puts_bulk(to, there, far_strides, from, near_strides, count, 1), gasnet_gets_bulk(back, flat_strides, to, there, far_strides, count, 1); break;
      case 7:
        gasnet_wait_syncnb(gasnet_puts_nb_bulk(to, there, far_strides, from, near_strides, count, 1));
        gasnet_wait_syncnb(gasnet_gets_nb_bulk(back, flat_strides, to, there, far_strides, count, 1));
        break;
      default: gasnet_puts_nbi_bulk(to, there, far_strides, from, near_strides, count, 1), gasnet_gets_nbi_bulk(back, flat_strides, to, there, far_strides, count, 1);
    }
    gasnet_wait_syncnbi_all();
    for (int i = 0; i < ROWS * BYTES; i++) CHECK(back[i] == from[i / BYTES][0]);
    for (int i = 0; i < ROWS; i++) CHECK(!gasnet_get_val(to, there + 2 * ROW * i + BYTES, 1));
    meet();
  }
  return done();
}
