/* The barrier of GASNet-1: names that agree and differ, at every rank; anonymous ones; forced mismatch; tries. */
#include "test.h"

static int barrier(int id, int flags, int wait_id, int wait_flags) {
  gasnet_barrier_notify(id, flags);
  if (gasnet_mynode() % 2) {
    int result;
    while ((result = gasnet_barrier_try(wait_id, wait_flags)) == GASNET_ERR_NOT_READY) {}
    return result;
  }
  return gasnet_barrier_wait(wait_id, wait_flags);
}

int main(int argc, char **argv) {
  int id;
  start(&argc, &argv);
  for (int round = 0; round < 200; round++) {
    CHECK(barrier(round, 0, round, 0) == GASNET_OK);
    CHECK(!gasnet_barrier_result(&id) && id == round);
    CHECK(barrier(me, GASNET_BARRIERFLAG_ANONYMOUS, 0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
    CHECK(gasnet_barrier_result(&id));
    CHECK(barrier(me, GASNET_BARRIERFLAG_UNNAMED, 0, GASNET_BARRIERFLAG_UNNAMED) == GASNET_OK);
    CHECK(gasnet_barrier(round, 0) == GASNET_OK);
  }
  for (gex_Rank_t odd = 0; odd < size; odd++) {
    /* One has another name. */
    const int name = me == odd ? 5 : 6;
    CHECK(barrier(name, 0, name, 0) == (size > 1 ? GASNET_ERR_BARRIER_MISMATCH : GASNET_OK));
    /* One alone has a name; the wait has it, too, or none. */
    const int flags = me == odd ? 0 : GASNET_BARRIERFLAG_ANONYMOUS;
    CHECK(barrier(77, flags, 77, 0) == GASNET_OK);
    CHECK(!gasnet_barrier_result(&id) && id == 77);
    CHECK(barrier(78, flags, 0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
    CHECK(barrier(79, flags, 80, 0) == GASNET_ERR_BARRIER_MISMATCH);
    /* One forces a mismatch. */
    CHECK(barrier(3, me == odd ? GASNET_BARRIERFLAG_MISMATCH : 0, 3, 0) == GASNET_ERR_BARRIER_MISMATCH);
    /* A wait's name differs at one alone. */
    CHECK(barrier(4, 0, me == odd ? 9 : 4, 0) == (me == odd ? GASNET_ERR_BARRIER_MISMATCH : GASNET_OK));
  }
  return done();
}
