/* Handler-safe locks, in handlers and outside. */
#include "test.h"

static gex_HSL_t lock = GEX_HSL_INITIALIZER;
static int count, answers;
static void ask(gex_Token_t token) {
  gex_HSL_Lock(&lock);
  count++;
  gex_HSL_Unlock(&lock);
  gex_AM_ReplyShort0(token, 129, 0);
}
static void answer(gex_Token_t token) {
  (void)token;
  CHECK(gex_HSL_Trylock(&lock) == GASNET_OK);
  answers++;
  gex_HSL_Unlock(&lock);
}

int main(int argc, char **argv) {
  gex_AM_Entry_t table[] = {{128, (gex_AM_Fn_t)ask, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "ask"},
                            {129, (gex_AM_Fn_t)answer, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0, NULL, "answer"}};
  gasnet_hsl_t other;
  start(&argc, &argv);
  CHECK(!gex_EP_RegisterHandlers(ep, table, 2));
  meet();
  gasnet_hsl_init(&other);
  for (int i = 0; i < 1000; i++) {
    for (gex_Rank_t to = 0; to < size; to++) CHECK(!gex_AM_RequestShort0(tm, to, 128, 0));
    gex_HSL_Lock(&lock);
    gasnet_hsl_lock(&other);
    CHECK(gasnet_mynode() == me);
    gasnet_hsl_unlock(&other);
    gex_HSL_Unlock(&lock);
  }
  GASNET_BLOCKUNTIL(answers == 1000 * (int)size);
  meet();
  CHECK(count == 1000 * (int)size);
  gasnet_hsl_destroy(&other);
  return done();
}
