/* A thread of PAR that waits for room at a rank keeps no other out of the library: the job ends by gasnet_exit, and a request
 * to oneself does not wait.
 * ranks: 2
 * run: exit = exit 3
 * run: other = exit 0 */
#include "test.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef GASNET_PAR
#include <pthread.h>

static void nothing(gex_Token_t token) { (void)token; }

/* More than there is room for: rank 1 does not poll for some seconds. */
static void *flood(void *unused) {
  (void)unused;
  for (int i = 0; i < 1000; i++) gex_AM_RequestShort0(tm, 1, 200, 0);
  return NULL;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
#endif

int main(int argc, char **argv) {
  start(&argc, &argv);
#ifdef GASNET_PAR
  const int is_exit = argc > 1 && !strcmp(argv[1], "exit");
  gex_AM_Entry_t entry = {200, (gex_AM_Fn_t)nothing, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQREP, 0, NULL, "nothing"};
  CHECK(!gex_EP_RegisterHandlers(ep, &entry, 1));
  meet();
  if (me) {
    /* At most two seconds behind the first exit the job has ended. */
    sleep(10);
    if (is_exit) gasnet_exit(4);
  } else {
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, flood, NULL));
    usleep(300000);
    if (is_exit) gasnet_exit(3);
    const double begin = seconds();
    gex_AM_RequestShort0(tm, 0, 200, 0);
    CHECK(seconds() - begin < 2);
    CHECK(!pthread_join(thread, NULL));
  }
  return done();
#else
  return argc > 1 && !strcmp(argv[1], "exit") ? (gasnet_exit(3), 0) : done();
#endif
}
