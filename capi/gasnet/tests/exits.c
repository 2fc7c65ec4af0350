/* Ends of the job, each with its code: by all, by one while others wait, compute or poll, by a handler, a return, exit().
 * run: all = exit 0
 * run: code = exit 17
 * run: one-others-barrier = exit 23
 * run: one-others-poll = exit 24
 * run: one-others-compute = exit 25
 * run: handler = exit 26
 * run: reply = exit 27
 * run: return = exit 28
 * run: return-one = exit 29
 * run: libc = exit 30
 * run: no-init = exit 33
 * run: fork = exit 34
 * run: before-attach = exit 31
 * run: sigquit = exit 32
 * run: crash = says segmentation fault
 * run: crash = exit 139
 * run: abort = says SIGABRT
 * run: abort = exit 134
 * run: raise = exit 134
 * run: pthread-kill = exit 134
 * run: crash-thread = exit 139
 * The first code that was stated counts, whatever others state later, and wherever SIGQUIT interrupts them:
 * run: first-compute = exit 14
 * run: first-poll 1 = exit 14
 * run: first-poll 2 = exit 14
 * run: first-poll 3 = exit 14
 * run: first-wait = exit 14
 * run: first-print = exit 14
 * run: first-default = exit 14
 * run: first-ignore = exit 14
 * run: first-raw = exit 14
 * Nothing reads what they have printed:
 * run: stuck = exit 15
 * Signals from outside: the program's handler of SIGQUIT, or else the signal's own code.
 * run: signal 1 = exit 4
 * run: signal 2 = exit 4
 * run: signal 6 = exit 4
 * run: signal 13 = exit 4
 * run: signal 14 = exit 4
 * run: signal 15 = exit 4
 * run: default 2 = exit 130
 * run: default 6 = exit 134
 * run: default 15 = exit 143
 * run: default 9 = exit 137
 * run: returns 15 = exit 143
 * Processes that end without the library, and those that are no rank:
 * run: raw = exit 99
 * run: fork-exit = exit 34
 * run: fork-signal = exit 34
 * run: fork-quit = exit 34
 * run: main-ends = exit 0
 * run: named-ends = exit 35 */
#include "test.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static void ends(gex_Token_t token, gex_AM_Arg_t code) {
  if (code == 27) gex_AM_ReplyShort1(token, 129, 0, code);
  else gasnet_exit(code);
}
static void ends_too(gex_Token_t token, gex_AM_Arg_t code) {
  (void)token;
  gasnet_exit(code);
}
static void on_quit(int number) {
  (void)number;
  gasnet_exit(32);
}
static void four(int number) {
  (void)number;
  gasnet_exit(4);
}
static void nine(int number) {
  (void)number;
  _exit(9);
}
static void nothing(int number) { (void)number; }
static void *ends_later(void *code) {
  usleep(300000);
  if (code) exit(*(int *)code);
  return code;
}
static void *crashes(void *nowhere) {
  *(volatile int *)nowhere = 0;
  return nowhere;
}

int main(int argc, char **argv) {
  const char *const how = argv[1];
  gex_AM_Entry_t table[] = {{128, (gex_AM_Fn_t)ends, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1, NULL, "ends"},
                            {129, (gex_AM_Fn_t)ends_too, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 1, NULL, "ends too"}};
  if (!strcmp(how, "no-init")) return 33;
  if (!strcmp(how, "before-attach")) {
    CHECK(!gex_Client_Init(&client, &ep, &tm, "TEST", &argc, &argv, 0));
    gasnet_exit(31);
  }
  start(&argc, &argv);
  CHECK(!gex_EP_RegisterHandlers(ep, table, 2));
  meet();
  printf("rank %u prints, and does not flush\n", me);
  const int is_last = me == size - 1;
  if (!strcmp(how, "all")) gasnet_exit(0);
  if (!strcmp(how, "code")) gasnet_exit(17);
  if (!strncmp(how, "one-", 4)) {
    if (is_last) gasnet_exit(strstr(how, "barrier") ? 23 : strstr(how, "poll") ? 24 : 25);
    if (strstr(how, "barrier")) meet();
    for (;;)
      if (strstr(how, "poll")) gasnet_AMPoll();
      else usleep(10);
  }
  if (!strcmp(how, "handler") || !strcmp(how, "reply")) {
    if (is_last) gex_AM_RequestShort1(tm, 0, 128, 0, *how == 'h' ? 26 : 27);
    GASNET_BLOCKUNTIL(0);
  }
  if (!strcmp(how, "return")) return 28;
  if (!strcmp(how, "return-one")) {
    if (is_last) return 29;
    GASNET_BLOCKUNTIL(0);
  }
  if (!strcmp(how, "libc")) exit(30);
  if (!strcmp(how, "fork")) {
    /* The end of another process is not the rank's. */
    int status = 0;
    const pid_t child = fork();
    if (!child) exit(5);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5);
    meet();
    return 34;
  }
  if (!strcmp(how, "sigquit")) {
    signal(SIGQUIT, on_quit);
    meet();
    if (is_last) gasnet_exit(32);
    for (;;) usleep(10);
  }
  if (!strncmp(how, "first-", 6)) {
    signal(SIGQUIT, strstr(how, "default") ? SIG_DFL : strstr(how, "ignore") ? SIG_IGN : strstr(how, "raw") ? nine : four);
    meet();
    if (is_last) gasnet_exit(14);
    for (;;)
      if (strstr(how, "poll")) gasnet_AMPoll();
      else if (strstr(how, "wait")) meet();
      else if (strstr(how, "print")) fprintf(stderr, "."), printf("a line\n");
  }
  if (!strcmp(how, "stuck")) {
    static char many[4096];
    int ends[2];
    CHECK(!pipe(ends) && dup2(ends[1], 1) == 1 && !fcntl(1, F_SETFL, O_NONBLOCK));
    while (write(1, many, sizeof many) > 0) {}
    CHECK(!fcntl(1, F_SETFL, 0));
    printf("more");
    gasnet_exit(15);
  }
  if (!strcmp(how, "signal") || !strcmp(how, "default") || !strcmp(how, "returns")) {
    if (*how == 's') signal(SIGQUIT, four);
    if (*how == 'r') signal(SIGQUIT, nothing);
    meet();
    if (is_last) kill(getpid(), atoi(argv[2]));
    for (;;)
      if (is_last) sched_yield();
      else gasnet_AMPoll();
  }
  if (!strcmp(how, "raw")) {
    if (is_last) _exit(99);
    for (;;) gasnet_AMPoll();
  }
  if (!strncmp(how, "fork-", 5)) {
    const int number = strstr(how, "quit") ? SIGQUIT : SIGTERM;
    int status = 0;
    const pid_t child = fork();
    if (!child && strstr(how, "exit")) gasnet_exit(5);
    if (!child) {
      alarm(20);
      kill(getpid(), number);
      for (;;) pause();
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(strstr(how, "exit") ? WIFEXITED(status) && WEXITSTATUS(status) == 5 : WIFSIGNALED(status) && WTERMSIG(status) == number);
    meet();
    return 34;
  }
  if (!strcmp(how, "main-ends") || !strcmp(how, "named-ends")) {
    /* The process goes on until its last thread has ended, whatever the program's name is. */
    static int code = 35;
    pthread_t thread;
    if (*how == 'n') CHECK(!prctl(PR_SET_NAME, "hamr-program"));
    CHECK(!pthread_create(&thread, NULL, ends_later, *how == 'n' ? &code : NULL));
    pthread_exit(NULL);
  }
  int *volatile nowhere = (int *)8;
  if (is_last && !strcmp(how, "crash")) *nowhere = 0;
  if (is_last && !strcmp(how, "abort")) abort();
  if (!strcmp(how, "raise") || !strcmp(how, "pthread-kill")) {
    signal(SIGQUIT, four);
    meet();
    if (is_last && *how == 'r') raise(SIGABRT);
    if (is_last) pthread_kill(pthread_self(), SIGABRT);
  }
  if (is_last && !strcmp(how, "crash-thread")) {
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, crashes, nowhere));
    pthread_join(thread, NULL);
  }
  GASNET_BLOCKUNTIL(0);
  return 0;
}
