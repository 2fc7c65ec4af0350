/* Members of a reduction whose operations or types of data differ: one sentence with both ranks. An operation of the program
 * that calls the library: one sentence.
 * ranks: 2
 * run: operation = says rank 1 in a reduction of 4 bytes in elements of 4 by operation 0x20 of type 0x1
 * run: type = says rank 1 in a reduction of 4 bytes in elements of 4 by operation 0x8 of type 0x10
 * run: user = says rank 1 in a reduction of 4 bytes in elements of 4 by operation 0x80000000 of type 0x40
 * run: poll = says gasnet_AMPoll: an operation of a reduction may call nothing of this library
 * run: put = says gex_RMA_PutBlocking: an operation of a reduction may call nothing of this library */
#include "test.h"

#include <gasnet_coll.h>
#include <string.h>

static const char *how;
static void join(const void *left, void *right, size_t count, const void *cdata) {
  (void)cdata;
  if (!strcmp(how, "poll")) gasnet_AMPoll();
  if (!strcmp(how, "put")) gex_RMA_PutBlocking(tm, me, base_of(me), left, 4, 0);
  while (count--) ((int *)right)[count] += ((const int *)left)[count];
}

int main(int argc, char **argv) {
  int mine, all = 0;
  start(&argc, &argv);
  mine = (int)me + 2;
  how = argc > 1 ? argv[1] : "";
  if (!strcmp(how, "poll") || !strcmp(how, "put") || !strcmp(how, "user")) {
    const gex_OP_t own = me && !strcmp(how, "user") ? GEX_OP_USER_NC : GEX_OP_USER;
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, &all, &mine, GEX_DT_USER, sizeof mine, 1, own, join, NULL, 0));
    return done();
  }
  const int is_type = argc > 1 && !strcmp(argv[1], "type");
  const gex_DT_t type = me && is_type ? GEX_DT_FLT : GEX_DT_I32;
  const gex_OP_t op = me && !is_type ? GEX_OP_MULT : GEX_OP_ADD;
  gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, &all, &mine, type, sizeof mine, 1, op, NULL, NULL, 0));
  printf("at this rank it is %d\n", all);
  return done();
}
