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
 * run: abort = says SIGABRT */
#include "test.h"
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
  int *volatile nowhere = (int *)8;
  if (is_last && !strcmp(how, "crash")) *nowhere = 0;
  if (is_last && !strcmp(how, "abort")) abort();
  GASNET_BLOCKUNTIL(0);
  return 0;
}
