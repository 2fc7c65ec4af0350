/* Red team, round 2, part B: members of a reduction whose operations or types of data differ: one sentence with both
 * ranks. On eabe526c each rank gets a result of its own.
 * ranks: 2
 * run: operation = says rank 1
 * run: type = says rank 1 */
#include "test.h"

#include <gasnet_coll.h>
#include <string.h>

int main(int argc, char **argv) {
  int mine, all = 0;
  start(&argc, &argv);
  mine = (int)me + 2;
  const int is_type = argc > 1 && !strcmp(argv[1], "type");
  const gex_DT_t type = me && is_type ? GEX_DT_FLT : GEX_DT_I32;
  const gex_OP_t op = me && !is_type ? GEX_OP_MULT : GEX_OP_ADD;
  gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, &all, &mine, type, sizeof mine, 1, op, NULL, NULL, 0));
  printf("at this rank it is %d\n", all);
  return done();
}
