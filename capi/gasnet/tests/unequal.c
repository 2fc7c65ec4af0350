/* Members of a team in different collectives: one sentence with both ranks, and the job ends.
 * ranks: 2 3
 * run: barrier = says rank 0 is in a barrier of 0 bytes, and rank 1 in a broadcast of 8 bytes with root 0
 * run: root = says rank 0 is in a broadcast of 8 bytes with root 0, and rank 1 in a broadcast of 8 bytes with root 1
 * run: domain = says rank 0 is in a domain of atomics of type 0x1 with operations 0x8, and rank 1 in a domain of atomics of type 0x2 */
#include "test.h"
#include <gasnet_coll.h>
#include <gasnet_ratomic.h>

int main(int argc, char **argv) {
  start(&argc, &argv);
  int64_t value = 0;
  gex_AD_t ad;
  if (!strcmp(argv[1], "domain")) gex_AD_Create(&ad, tm, me == 1 ? GEX_DT_U32 : GEX_DT_I32, GEX_OP_ADD, 0);
  const int is_barrier = !strcmp(argv[1], "barrier");
  gex_Event_Wait(is_barrier && me != 1 ? gex_Coll_BarrierNB(tm, 0)
                                       : gex_Coll_BroadcastNB(tm, !is_barrier && me == 1, &value, &value, 8, 0));
  GASNET_BLOCKUNTIL(0);
  return 0;
}
