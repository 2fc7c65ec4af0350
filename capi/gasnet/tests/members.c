/* Lists of gex_TM_Create that are none: members with other lists, a rank that does not exist, a rank twice. Each is one
 * sentence.
 * ranks: 2
 * run: differ = says gex_TM_Create
 * run: jobrank = says gex_TM_Create
 * run: twice = says gex_TM_Create */
#include "test.h"

#include <string.h>

int main(int argc, char **argv) {
  gex_EP_Location_t all[3] = {{0, 0}, {1, 0}, {0, 0}}, mine[1] = {{1, 0}};
  gex_TM_t made = GEX_TM_INVALID;
  start(&argc, &argv);
  if (argc > 1 && !strcmp(argv[1], "differ")) {
    gex_TM_Create(&made, 1, tm, me ? mine : all, me ? 1 : 2, NULL, 0, 0);
  } else if (argc > 1 && !strcmp(argv[1], "jobrank")) {
    all[2].gex_rank = 99;
    gex_TM_Create(&made, 1, tm, all, 3, NULL, 0, GEX_FLAG_RANK_IS_JOBRANK);
  } else {
    gex_TM_Create(&made, 1, tm, all, 3, NULL, 0, 0);
  }
  fprintf(stderr, "rank %d: a team of %d\n", (int)me, (int)gex_TM_QuerySize(made));
  return done();
}
