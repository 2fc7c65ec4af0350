/* A program in C++: all headers, calls with and without a number, handlers. */
#include "test.h"
#include <gasnet_coll.h>
#include <gasnet_mk.h>
#include <gasnet_ratomic.h>
#include <gasnet_vis.h>
#include <vector>

static int answers;
static void ask(gex_Token_t token, void *buf, size_t n, gex_AM_Arg_t one) {
  CHECK(!gex_AM_ReplyMedium(token, 201, buf, n, GEX_EVENT_NOW, 0, one, one + 1));
}
static void answer(gex_Token_t, void *buf, size_t n, gex_AM_Arg_t one, gex_AM_Arg_t two) {
  for (size_t i = 0; i < n; i++) CHECK(static_cast<unsigned char *>(buf)[i] == static_cast<unsigned char>(i));
  CHECK(one == 5 && two == 6);
  answers++;
}
static gasnett_atomic_t count = gasnett_atomic_init(0);
static gex_HSL_t lock = GEX_HSL_INITIALIZER;
GASNETT_THREADKEY_DEFINE(key);
GASNETT_PLEASE_INLINE(seven) int seven(void) { return 7; }

int main(int argc, char **argv) {
  std::vector<gex_AM_Entry_t> table = {
      {200, reinterpret_cast<gex_AM_Fn_t>(ask), GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1, nullptr, "ask"},
      {201, reinterpret_cast<gex_AM_Fn_t>(answer), GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 2, nullptr, "answer"}};
  start(&argc, &argv);
  CHECK(!gex_EP_RegisterHandlers(ep, table.data(), table.size()));
  meet();
  std::vector<unsigned char> data(1000);
  for (size_t i = 0; i < data.size(); i++) data[i] = static_cast<unsigned char>(i);
  for (gex_Rank_t to = 0; to < size; to++) {
    CHECK(!gex_AM_RequestMedium(tm, to, 200, data.data(), data.size(), GEX_EVENT_NOW, 0, 5));
    CHECK(!gex_AM_RequestMedium1(tm, to, 200, data.data(), data.size(), GEX_EVENT_NOW, 0, 5));
    CHECK(!gasnet_AMRequestMedium1(to, 200, data.data(), data.size(), 5));
  }
  GASNET_BLOCKUNTIL(answers == static_cast<int>(3 * size));
  gasnett_atomic_increment(&count, GASNETT_ATOMIC_REL);
  gasnett_threadkey_set(key, &count);
  gex_HSL_Lock(&lock);
  gex_HSL_Unlock(&lock);
  CHECK(gasnett_atomic_read(&count, 0) == 1 && gasnett_threadkey_get(key) == &count && seven() == 7);
  return done();
}
