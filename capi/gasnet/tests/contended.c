/* A handler-safe lock that two threads take in turn is taken by neither twice: whoever has it next has not stated so yet when the
 * one before asks for it again. */
#include "test.h"
#include <pthread.h>

enum { ROUNDS = 1000000 };
static gex_HSL_t lock = GEX_HSL_INITIALIZER;
static int count, tried;

static void *take(void *argument) {
  volatile unsigned pause = 0;
  for (int i = 0; i < ROUNDS; i++) {
    gex_HSL_Lock(&lock);
    count++;
    gex_HSL_Unlock(&lock);
    /* So long that the other thread is about to have it. */
    for (unsigned at = 0; at < (unsigned)i % 97; at++) pause += at;
    if (i % 3 == 0 && gex_HSL_Trylock(&lock) == GASNET_OK) {
      tried++;
      gex_HSL_Unlock(&lock);
    }
  }
  return argument;
}

int main(int argc, char **argv) {
  pthread_t thread;
  start(&argc, &argv);
  if (!me) {
    CHECK(!pthread_create(&thread, NULL, take, NULL));
    take(NULL);
    CHECK(!pthread_join(thread, NULL));
    CHECK(count == 2 * ROUNDS);
  }
  return done();
}
