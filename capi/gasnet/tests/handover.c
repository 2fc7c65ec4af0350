/* What threads may hand to each other, and what each has by itself: events, barriers, prepared messages, regions, notes, locks. In
 * SEQ the one thread does both parts. */
#include "test.h"
#include <gasnet_coll.h>
#include <gasnet_vis.h>
#include <pthread.h>

enum { NOTE = 190, ASK };
static int notes, asked;
static gex_Event_t event, region;
static gex_HSL_t lock = GEX_HSL_INITIALIZER;
static int64_t sum;
static void note(gex_Token_t token, void *buf, size_t n) {
  (void)token;
  CHECK(n == 4 && !memcmp(buf, "mine", 4));
  __atomic_fetch_add(&notes, 1, __ATOMIC_RELEASE);
}
static void ask(gex_Token_t token) {
  (void)token;
  __atomic_fetch_add(&asked, 1, __ATOMIC_RELEASE);
}
#if !defined(GASNET_SEQ)
static int step;
static void at(int number) {
  while (__atomic_load_n(&step, __ATOMIC_ACQUIRE) < number) gasnett_spinloop_hint();
}
static void go(void) { __atomic_fetch_add(&step, 1, __ATOMIC_RELEASE); }
#endif

/* A collective begins here and is awaited there; so are a region and the barrier of GASNet-1. */
static void begin(void) {
  const int64_t mine = me + 1;
  static int64_t kept;
  kept = mine;
  event = gex_Coll_ReduceToAllNB(tm, &sum, &kept, GEX_DT_I64, 8, 1, GEX_OP_ADD, NULL, NULL, 0);
  gex_NBI_BeginAccessRegion(0);
  CHECK(!gex_RMA_PutNBIVal(tm, (me + 1) % size, base_of((me + 1) % size), 7 + me, 8, 0));
  region = gex_NBI_EndAccessRegion(0);
}
static void end(void) {
  gex_Event_t both[] = {event, region};
  gex_Event_WaitAll(both, 2, 0);
  CHECK(sum == (int64_t)size * (size + 1) / 2);
  gasnet_barrier_notify(5, 0);
}

/* While one thread has a message prepared, a region open, a lock, and a note for its next put, another may do anything. */
static void busy(int has_lock) {
  char byte = 3;
  void *target = base_of((me + 1) % size) + 512, *source = &byte;
  CHECK(!gasnet_AMPoll() && !gex_RMA_PutBlocking(tm, me, base_of(me) + 256, &byte, 1, 0));
  CHECK(!gex_AM_RequestShort0(tm, (me + 1) % size, ASK, 0));
  gex_NBI_BeginAccessRegion(0);
  gex_Event_Wait(gex_NBI_EndAccessRegion(0));
  CHECK(!gex_VIS_IndexedPutBlocking(tm, (me + 1) % size, 1, &target, 1, 1, &source, 1, 0));
  CHECK(gex_HSL_Trylock(&lock) == (has_lock ? GASNET_ERR_NOT_READY : GASNET_OK));
  if (!has_lock) gex_HSL_Unlock(&lock);
  gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, me, NULL, 1, 8, NULL, 0, 0);
  CHECK(!gex_AM_CancelRequestMedium(sd, 0));
}
static void *other(void *unused) {
  (void)unused;
#if !defined(GASNET_SEQ)
  at(1);
  end();
  go();
  at(3);
  busy(1);
  go();
  at(5);
#endif
  busy(0);
  return NULL;
}

int main(int argc, char **argv) {
  gex_AM_Entry_t table[] = {{NOTE, (gex_AM_Fn_t)note, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 0, NULL, NULL},
                            {ASK, (gex_AM_Fn_t)ask, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, NULL}};
  start(&argc, &argv);
  CHECK(!gex_EP_RegisterHandlers(ep, table, 2));
  meet();
  char byte = 4;
  void *target = base_of((me + 1) % size) + 600, *source = &byte;
  const int others = gex_System_QueryMaxThreads() > 1 ? 2 : 1;
#if defined(GASNET_SEQ)
  begin();
  end();
  CHECK(gasnet_barrier_wait(5, 0) == GASNET_OK);
  other(NULL);
#else
  pthread_t thread;
  CHECK(!pthread_create(&thread, NULL, other, NULL));
  begin();
  go();
  at(2);
  CHECK(gasnet_barrier_wait(5, 0) == GASNET_OK);
  gex_NBI_BeginAccessRegion(0);
  gex_VIS_SetPeerCompletionHandler(NOTE, "mine", 4, 0);
  gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, me, NULL, 1, 8, NULL, 0, 0);
  gex_HSL_Lock(&lock);
  go();
  at(4);
  gex_HSL_Unlock(&lock);
  CHECK(!gex_AM_CancelRequestMedium(sd, 0));
  gex_Event_Wait(gex_NBI_EndAccessRegion(0));
  CHECK(!gex_VIS_IndexedPutBlocking(tm, (me + 1) % size, 1, &target, 1, 1, &source, 1, 0));
  GASNET_BLOCKUNTIL(__atomic_load_n(&notes, __ATOMIC_ACQUIRE) == 1);
  go();
  CHECK(!pthread_join(thread, NULL));
#endif
  (void)target, (void)source;
  GASNET_BLOCKUNTIL(__atomic_load_n(&asked, __ATOMIC_ACQUIRE) == others);
  meet();
  CHECK(*(uint64_t *)base_of(me) == 7 + (me + size - 1) % size && notes == others - 1);
  return done();
}
