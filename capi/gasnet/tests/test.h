/* What the tests of this folder have in common. A test says what failed, and its exit code is 1. */
#ifndef HAMR_TEST_H
#define HAMR_TEST_H

#include <gasnet.h>

#define CHECK(condition)                                                                                  \
  do {                                                                                                    \
    if (!(condition)) {                                                                                   \
      fprintf(stderr, "rank %d: %s:%d: expected %s\n", (int)gex_System_QueryJobRank(), __FILE__, __LINE__, \
              #condition);                                                                                \
      fflush(NULL);                                                                                       \
      gasnet_exit(1);                                                                                     \
    }                                                                                                     \
  } while (0)

static gex_Client_t client;
static gex_EP_t ep;
static gex_TM_t tm;
static gex_Segment_t segment;
static gex_Rank_t me, size;

/* The address of a rank's segment there. */
static inline char *base_of(gex_Rank_t rank) {
  void *owner = NULL;
  CHECK(!gex_Segment_QueryBound(tm, rank, &owner, NULL, NULL));
  return (char *)owner;
}

static inline void meet(void) { gex_Event_Wait(gex_Coll_BarrierNB(tm, 0)); }

static inline void start(int *argc, char ***argv) {
  CHECK(!gex_Client_Init(&client, &ep, &tm, "TEST", argc, argv, GEX_FLAG_USES_GASNET1));
  me = gex_TM_QueryRank(tm), size = gex_TM_QuerySize(tm);
  CHECK(!gex_Segment_Attach(&segment, tm, 1 << 20));
}

static inline int done(void) {
  meet();
  if (!me) printf("done\n");
  gasnet_exit(0);
  return 0;
}

#endif
