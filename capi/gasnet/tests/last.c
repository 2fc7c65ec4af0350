/* What is called at the end of the program, and of a thread: functions of atexit, and destructors of a thread's values, may use
 * what the thread may.
 * run: program = exit 0
 * run: thread = exit 0 */
#include "test.h"
#include <gasnet_coll.h>
#include <gasnet_vis.h>
#include <pthread.h>

enum { ASK = 180, ANSWER, NOTE };
static gex_HSL_t lock = GEX_HSL_INITIALIZER, other = GEX_HSL_INITIALIZER;
static int answers, notes, ends;
static pthread_key_t key;

static void ask(gex_Token_t token, void *buf, size_t n) {
  CHECK(n == 20 && !memcmp(buf, "twenty bytes of text", 20));
  gex_AM_ReplyMedium0(token, ANSWER, buf, n, GEX_EVENT_NOW, 0);
}
static void answer(gex_Token_t token, void *buf, size_t n) {
  (void)token;
  CHECK(n == 20 && !memcmp(buf, "twenty bytes of text", 20));
  gex_HSL_Lock(&lock);
  answers++;
  gex_HSL_Unlock(&lock);
}
static void note(gex_Token_t token, void *buf, size_t n) {
  (void)token;
  CHECK(n == 4 && !memcmp(buf, "mine", 4));
  notes++;
}

static void locks(void) {
  gex_HSL_Lock(&lock);
  CHECK(gex_HSL_Trylock(&other) == GASNET_OK);
  gex_HSL_Unlock(&other);
  gex_HSL_Unlock(&lock);
}

/* All kinds of calls. */
static void all(void) {
  const int64_t mine = me + 1;
  int64_t sum = 0;
  char byte = 4;
  void *target = base_of((me + 1) % size) + 600, *source = &byte;
  const int before = answers, noted = notes;
  locks();
  for (gex_Rank_t to = 0; to < size; to++) CHECK(!gex_AM_RequestMedium0(tm, to, ASK, "twenty bytes of text", 20, GEX_EVENT_NOW, 0));
  GASNET_BLOCKUNTIL(answers == before + (int)size);
  gex_VIS_SetPeerCompletionHandler(NOTE, "mine", 4, 0);
  CHECK(!gex_VIS_IndexedPutBlocking(tm, (me + 1) % size, 1, &target, 1, 1, &source, 1, 0));
  GASNET_BLOCKUNTIL(notes == noted + 1);
  gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, &sum, &mine, GEX_DT_I64, 8, 1, GEX_OP_ADD, NULL, NULL, 0));
  CHECK(sum == (int64_t)size * (size + 1) / 2);
  CHECK(gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
  meet();
}

static void at_exit(void) {
  all();
  fprintf(stderr, "rank %d: all is there at its end\n", (int)me);
}

/* Locks and puts are any thread's, in SEQ, too. */
static void thread_ends(void *value) {
  uint64_t back = 0;
  locks();
  gex_RMA_PutBlockingVal(tm, me, base_of(me), 7, 8, 0);
  CHECK(!gex_RMA_GetBlocking(tm, &back, me, base_of(me), 8, 0) && back == 7);
  ends++;
  /* Again, behind the destructors of all that the first use has made. */
  if (ends < 3) pthread_setspecific(key, value);
}
static void *thread(void *unused) {
  locks();
  CHECK(!pthread_setspecific(key, &key));
  return unused;
}

int main(int argc, char **argv) {
  gex_AM_Entry_t table[] = {{ASK, (gex_AM_Fn_t)ask, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 0, NULL, NULL},
                            {ANSWER, (gex_AM_Fn_t)answer, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 0, NULL, NULL},
                            {NOTE, (gex_AM_Fn_t)note, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 0, NULL, NULL}};
  start(&argc, &argv);
  CHECK(!gex_EP_RegisterHandlers(ep, table, 3));
  meet();
  if (argc > 1 && !strcmp(argv[1], "thread")) {
    pthread_t of;
    CHECK(!pthread_key_create(&key, thread_ends));
    CHECK(!pthread_create(&of, NULL, thread, NULL) && !pthread_join(of, NULL));
    CHECK(ends == 3);
    return done();
  }
  all();
  CHECK(!atexit(at_exit));
  return 0;
}
