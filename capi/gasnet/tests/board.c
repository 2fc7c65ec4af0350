/* What a rank states on its board is a claim about itself.
 * segment: rank 1 states a segment that its part of the world does not have, to which a put of rank 0 would leave the world:
 * here into a variable of rank 0. Likewise one that is too long, or wraps.
 * process: rank 1 writes another process wherever its own might have been. No rank sends a signal to another process.
 * ranks: 2
 * run: segment = says gex_EP_PublishBoundSegment
 * run: long = says gex_EP_PublishBoundSegment
 * run: wraps = says gex_EP_PublishBoundSegment
 * run: owner = says gex_EP_PublishBoundSegment
 * run: process = exit 0 */
#include "test.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The words of this rank's board, behind what a program can have of the segment (board.rs). */
static volatile uint64_t *board(void) {
  return (volatile uint64_t *)((char *)gex_Segment_QueryAddr(segment) + gasnet_getMaxLocalSegmentSize());
}

static int process(uint64_t *told) {
  if (!me) {
    const pid_t other = fork();
    if (!other) {
      /* As any program that this one could start. */
      signal(SIGQUIT, SIG_DFL);
      alarm(20);
      for (;;) pause();
    }
    gex_RMA_PutBlockingVal(tm, 1, base_of(1), (uint64_t)other, 8, 0);
    meet();
    gasnet_exit(0);
  }
  meet();
  const pid_t other = (pid_t)*told;
  /* All facts but one: it does not exit, so it is asked to. */
  for (int i = 0; i < 512; i++)
    if (i != 3) board()[i] = (uint64_t)other;
  for (;;) {
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)other);
    FILE *const file = fopen(path, "r");
    const int is_there = file && fgets(line, sizeof line, file) && !strstr(line, ") Z");
    if (file) fclose(file);
    if (!is_there) {
      fprintf(stderr, "process %d has ended, which is no rank\n", (int)other);
      abort();
    }
    usleep(1000);
  }
}

int main(int argc, char **argv) {
  static volatile uint64_t variable = 7;
  void *owner = NULL, *local = NULL;
  uintptr_t length = 0;
  start(&argc, &argv);
  gex_EP_t mine = ep;
  uint64_t *const told = (uint64_t *)gex_Segment_QueryAddr(segment);
  if (argc > 1 && !strcmp(argv[1], "process")) return process(told);
  CHECK(!gex_Segment_QueryBound(tm, 1, &owner, &local, &length));
  /* Rank 0 tells the distance to rank 1, which a hostile rank would find out otherwise. */
  if (!me) gex_RMA_PutBlockingVal(tm, 1, owner, (uintptr_t)&variable - (uintptr_t)local, 8, 0);
  meet();
  if (me) {
    if (!strcmp(argv[1], "segment")) board()[4] = *told, board()[2] = 4096;
    if (!strcmp(argv[1], "long")) board()[2] = gasnet_getMaxLocalSegmentSize() + 1;
    if (!strcmp(argv[1], "wraps")) board()[4] = 4096, board()[2] = ~(uint64_t)4095;
    if (!strcmp(argv[1], "owner")) board()[1] = ~(uint64_t)4095;
  }
  /* Rank 1 publishes nothing anew. */
  CHECK(!gex_EP_PublishBoundSegment(tm, me ? NULL : &mine, me ? 0 : 1, 0));
  if (!me) {
    gex_RMA_PutBlockingVal(tm, 1, owner, 42, 8, 0);
    fprintf(stderr, "rank 0: a put to rank 1 has made its own variable %d\n", (int)variable);
    CHECK(variable == 7);
  }
  return done();
}
