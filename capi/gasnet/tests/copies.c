/* A process that a rank has forked is no rank: it takes no message of the rank, and says so.
 * ranks: 2
 * run: polls = exit 0
 * run: sends = exit 0
 * run: meets = exit 0 */
#include "test.h"
#include <signal.h>
#include <sys/wait.h>

enum { ASK = 180, ANSWER };
static int asked, answered;
static void ask(gex_Token_t token) {
  asked++;
  gex_AM_ReplyShort0(token, ANSWER, 0);
}
static void answer(gex_Token_t token) {
  (void)token;
  answered++;
}

int main(int argc, char **argv) {
  gex_AM_Entry_t table[] = {{ASK, (gex_AM_Fn_t)ask, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, NULL},
                            {ANSWER, (gex_AM_Fn_t)answer, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0, NULL, NULL}};
  const char *const how = argv[1];
  start(&argc, &argv);
  CHECK(!gex_EP_RegisterHandlers(ep, table, 2));
  meet();
  if (me) {
    for (int i = 0; i < 10; i++) CHECK(!gex_AM_RequestShort0(tm, 0, ASK, 0));
    gex_RMA_PutBlockingVal(tm, 0, base_of(0), 1, 8, 0);
  } else {
    static char said[4096];
    int status = 0, ends[2];
    CHECK(!pipe(ends));
    while (!*(volatile uint64_t *)base_of(0)) sched_yield();
    const pid_t child = fork();
    if (!child) {
      alarm(20);
      dup2(ends[1], 2);
      if (*how == 'p') for (int i = 0; i < 1000; i++) gasnet_AMPoll();
      if (*how == 's') gex_AM_RequestShort0(tm, 1, ASK, 0);
      if (*how == 'm') gex_Coll_BarrierNB(tm, 0);
      _exit(asked ? 3 : 4);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(!close(ends[1]) && read(ends[0], said, sizeof said - 1) >= 0);
    fprintf(stderr, "the copy: status %#x\n", status);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(said, "has forked is no rank"));
    GASNET_BLOCKUNTIL(asked == 10);
  }
  if (me) GASNET_BLOCKUNTIL(answered == 10);
  meet();
  CHECK(asked == (me ? 0 : 10) && answered == (me ? 10 : 0));
  return done();
}
