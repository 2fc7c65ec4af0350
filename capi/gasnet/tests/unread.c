/* The job's code, whatever takes what the launcher says, and whatever it was started with; and the sentence of a rank that was used
 * wrongly, whatever takes what it has printed.
 * ranks: 1 2
 * run: codes = exit 0
 * run: wrong = says gex_HSL_Unlock: this thread has not the lock
 * run: wrong = exit 134
 * run: read = says gex_HSL_Unlock: this thread has not the lock */
#include "test.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

enum { FULL, CLOSED, NO_CHILDREN, SHORT_FILES, LITTLE_DATA, WAYS };

/* A job of this program that ends with _exit(99), started in one of these ways; the status of its launcher. */
static int job(int way) {
  int status = 0;
  const pid_t child = fork();
  if (!child) {
    int ends[2];
    if (pipe(ends)) _exit(1);
    close(ends[0]);
    if (way == FULL && dup2(open("/dev/full", O_WRONLY), 2) != 2) _exit(1);
    if (way == CLOSED && dup2(ends[1], 2) != 2) _exit(1);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGCHLD, way == NO_CHILDREN ? SIG_IGN : SIG_DFL);
    if (way == SHORT_FILES) {
      const struct rlimit limit = {1 << 20, 1 << 20};
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    if (way == LITTLE_DATA) {
      const struct rlimit limit = {4 << 20, 4 << 20};
      setrlimit(RLIMIT_DATA, &limit);
    }
    setenv("GASNET_PSHM_NODES", "2", 1);
    execl(gasnett_exe_name(), gasnett_exe_name(), "raw", (char *)NULL);
    _exit(1);
  }
  alarm(30);
  CHECK(waitpid(child, &status, 0) == child);
  alarm(0);
  return status;
}

static void *reads(void *from) {
  char line[8];
  return fgets(line, sizeof line, (FILE *)from) ? from : NULL;
}

int main(int argc, char **argv) {
  gex_HSL_t lock = GEX_HSL_INITIALIZER;
  const char *const how = argc > 1 ? argv[1] : "";
  start(&argc, &argv);
  if (!strcmp(how, "raw")) {
    if (!me) _exit(99);
    GASNET_BLOCKUNTIL(0);
  }
  if (!strcmp(how, "wrong")) {
    /* Nothing reads what it has printed. */
    static char many[4096];
    int ends[2];
    CHECK(!pipe(ends) && dup2(ends[1], 1) == 1 && !fcntl(1, F_SETFL, O_NONBLOCK));
    while (write(1, many, sizeof many) > 0) {}
    CHECK(!fcntl(1, F_SETFL, 0));
    printf("more");
    gex_HSL_Unlock(&lock);
  }
  if (!strcmp(how, "read")) {
    /* A thread waits for input, and has the stream. */
    int ends[2];
    pthread_t thread;
    CHECK(!pipe(ends) && !pthread_create(&thread, NULL, reads, fdopen(ends[0], "r")));
    usleep(100000);
    gex_HSL_Unlock(&lock);
  }
  if (!me)
    for (int way = 0; way < WAYS; way++) {
      const int status = job(way);
      fprintf(stderr, "way %d: status %#x\n", way, status);
      /* Ranks do not start where no file is as long as their memory, or the launcher has none. */
      CHECK(WIFEXITED(status) && WEXITSTATUS(status) == (way == SHORT_FILES || way == LITTLE_DATA ? 2 : 99));
    }
  return done();
}
