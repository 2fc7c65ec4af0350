/* Threads of a rank, which all send, put, wait, take locks and reduce at the same time; in SEQ there is one. The number
 * says how long they do.
 * run: 300 = exit 0
 * run: exit = exit 9
 * run: nested = says gex_AM_RequestShort: a handler-safe lock is held */
#include "test.h"
#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <pthread.h>

#if defined(GASNET_SEQ)
#define THREADS 1
#else
#define THREADS 4
#endif

static int rounds;
static gex_HSL_t lock = GEX_HSL_INITIALIZER;
static gex_TM_t teams[THREADS];
static gex_AD_t ad;
static int counted, served, in_handler;
static int answers[THREADS];
static pthread_barrier_t together;

static void ask(gex_Token_t token, void *buf, size_t n, gex_AM_Arg_t thread, gex_AM_Arg_t i) {
  /* Handlers of a rank run one at a time. */
  CHECK(!__atomic_fetch_add(&in_handler, 1, __ATOMIC_RELAXED));
  CHECK(n == (size_t)(i % 300) && (!n || ((unsigned char *)buf)[n - 1] == (unsigned char)(i + thread)));
  gex_HSL_Lock(&lock);
  served++;
  gex_HSL_Unlock(&lock);
  gex_AM_ReplyShort1(token, 129, 0, thread);
  __atomic_fetch_sub(&in_handler, 1, __ATOMIC_RELAXED);
}
static void answer(gex_Token_t token, gex_AM_Arg_t thread) {
  (void)token;
  __atomic_fetch_add(&answers[thread], 1, __ATOMIC_RELAXED);
}

static void *work(void *argument) {
  const int thread = (int)(intptr_t)argument;
  const size_t own = (me * THREADS + thread) * sizeof(uint64_t);
  unsigned char data[300];
  for (int i = 0; i < rounds; i++) {
    for (gex_Rank_t to = 0; to < size; to++) {
      uint64_t back = 0;
      const uint64_t value = (uint64_t)i << 32 | own;
      uint64_t *const there = (uint64_t *)(base_of(to) + own);
      memset(data, i + thread, sizeof data);
      if (i % 3) {
        CHECK(!gex_AM_RequestMedium2(tm, to, 128, data, (size_t)(i % 300), GEX_EVENT_NOW, 0, thread, i));
      } else {
        gex_AM_SrcDesc_t message = gex_AM_PrepareRequestMedium(tm, to, NULL, (size_t)(i % 300), 300, NULL, 0, 2);
        memcpy(gex_AM_SrcDescAddr(message), data, (size_t)(i % 300));
        gex_AM_CommitRequestMedium2(message, 128, (size_t)(i % 300), thread, i);
      }
      gex_HSL_Lock(&lock);
      counted++;
      gex_HSL_Unlock(&lock);
      gex_Event_Wait(gex_RMA_PutNB(tm, to, there, &value, sizeof value, GEX_EVENT_NOW, 0));
      CHECK(!gex_RMA_GetBlocking(tm, &back, to, there, sizeof back, 0) && back == value);
      gex_Event_Wait(gex_AD_OpNB_U64(ad, NULL, to, base_of(to) + 65536, GEX_OP_INC, 0, 0, 0));
    }
    if (i % 25 == 0) {
      const int64_t mine = me * 100 + thread + i;
      int64_t sum = 0;
      gex_Event_t both[2];
      both[0] = gex_Coll_ReduceToAllNB(teams[thread], &sum, &mine, GEX_DT_I64, 8, 1, GEX_OP_ADD, NULL, NULL, 0);
      both[1] = gex_Coll_BarrierNB(teams[thread], 0);
      gex_Event_WaitAll(both, 2, 0);
      CHECK(sum == (int64_t)size * (size - 1) / 2 * 100 + (int64_t)size * (thread + i));
      GASNET_BLOCKUNTIL(__atomic_load_n(&answers[thread], __ATOMIC_RELAXED) == (i + 1) * (int)size);
    }
  }
  GASNET_BLOCKUNTIL(__atomic_load_n(&answers[thread], __ATOMIC_RELAXED) == rounds * (int)size);
  return NULL;
}

/* The others wait for ever, one of them in a handler-safe lock. */
static void *ends(void *argument) {
  pthread_barrier_wait(&together);
  if ((intptr_t)argument == THREADS - 1 && me == size - 1) gasnet_exit(9);
  GASNET_BLOCKUNTIL(0);
  return NULL;
}

/* One thread has a lock, and may not send; that another has one does not count. */
static void *nested(void *argument) {
  static gex_HSL_t locks[THREADS];
  gex_HSL_Init(&locks[(intptr_t)argument]);
  if ((intptr_t)argument == 0) gex_HSL_Lock(&locks[0]);
  pthread_barrier_wait(&together);
  if (argument) CHECK(!gasnet_AMPoll());
  pthread_barrier_wait(&together);
  if ((intptr_t)argument == 0) gex_AM_RequestShort1(tm, me, 129, 0, 0);
  GASNET_BLOCKUNTIL(0);
  return NULL;
}

int main(int argc, char **argv) {
  gex_AM_Entry_t table[] = {{128, (gex_AM_Fn_t)ask, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 2, NULL, "ask"},
                            {129, (gex_AM_Fn_t)answer, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 1, NULL, "answer"}};
  void *(*what)(void *) = work;
  pthread_t threads[THREADS];
  uint64_t total = 0;
  start(&argc, &argv);
  if (argc > 1 && !strcmp(argv[1], "exit")) what = ends;
  else if (argc > 1 && !strcmp(argv[1], "nested")) what = nested;
  else rounds = argc > 1 ? atoi(argv[1]) : 100;
  CHECK(gex_System_QueryMaxThreads() >= THREADS);
  CHECK(!gex_EP_RegisterHandlers(ep, table, 2));
  for (int i = 0; i < THREADS; i++) gex_TM_Split(&teams[i], tm, i, (int)me, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
  gex_AD_Create(&ad, tm, GEX_DT_U64, GEX_OP_INC | GEX_OP_GET, 0);
  memset(base_of(me), 0, 1 << 17);
  pthread_barrier_init(&together, NULL, THREADS);
  meet();
  for (int i = 1; i < THREADS; i++) CHECK(!pthread_create(&threads[i], NULL, what, (void *)(intptr_t)i));
  what((void *)0);
  for (int i = 1; i < THREADS; i++) CHECK(!pthread_join(threads[i], NULL));
  meet();
  GASNET_BLOCKUNTIL(served == THREADS * rounds * (int)size);
  CHECK(counted == THREADS * rounds * (int)size);
  gex_Event_Wait(gex_AD_OpNB_U64(ad, &total, 0, base_of(0) + 65536, GEX_OP_GET, 0, 0, 0));
  CHECK(total == (uint64_t)THREADS * rounds * size);
  for (int i = 0; i < THREADS; i++) gex_TM_Destroy(teams[i], NULL, 0);
  return done();
}
