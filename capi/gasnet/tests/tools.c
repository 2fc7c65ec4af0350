/* The tools: ticks, atomics, locks, the environment, numbers, texts.
 * ranks: 1 */
#include "test.h"

GASNETT_THREADKEY_DEFINE(key);
GASNETT_IDENT(tools_ident, "$HamrTest: tools $");

int main(int argc, char **argv) {
  char text[64];
  start(&argc, &argv);
  const gasnett_tick_t begin = gasnett_ticks_now();
  gasnett_nsleep(2000000);
  const uint64_t ns = gasnett_ticks_to_ns(gasnett_ticks_now() - begin);
  CHECK(ns >= 2000000 && begin > GASNETT_TICK_MIN && begin < GASNETT_TICK_MAX);
  gasnett_atomic_t a = gasnett_atomic_init(5);
  CHECK(gasnett_atomic_read(&a, 0) == 5 && gasnett_atomic_add(&a, 3, GASNETT_ATOMIC_REL) == 8 && gasnett_atomic_subtract(&a, 8, 0) == 0);
  gasnett_atomic_decrement(&a, 0);
  CHECK(gasnett_atomic_signed(gasnett_atomic_read(&a, GASNETT_ATOMIC_MB_PRE)) == -1);
  gasnett_atomic_set(&a, 1, 0);
  CHECK(!gasnett_atomic_compare_and_swap(&a, 2, 9, 0) && gasnett_atomic_compare_and_swap(&a, 1, 9, GASNETT_ATOMIC_ACQ_IF_TRUE));
  CHECK(gasnett_atomic_swap(&a, 1, 0) == 9 && gasnett_atomic_decrement_and_test(&a, 0));
  gasnett_strongatomic32_t s = gasnett_atomic32_init(0);
  gasnett_strongatomic32_increment(&s, 0);
  CHECK(gasnett_strongatomic32_read(&s, 0) == 1 && sizeof(gasnett_atomic32_t) == 4 && sizeof(gasnett_atomic64_t) == 8);
  gasnett_mutex_t mutex = GASNETT_MUTEX_INITIALIZER;
  gasnett_mutex_lock(&mutex);
  gasnett_mutex_unlock(&mutex);
  CHECK(!gasnett_mutex_trylock(&mutex));
  gasnett_mutex_unlock(&mutex);
  gasnett_rwlock_t rwlock = GASNETT_RWLOCK_INITIALIZER;
  gasnett_rwlock_rdlock(&rwlock);
  gasnett_rwlock_unlock(&rwlock);
  CHECK(!gasnett_threadkey_get(key));
  gasnett_threadkey_set(key, text);
  CHECK(gasnett_threadkey_get(key) == text);
  gasnett_setenv("TOOLS_SIZE", "1.5MB");
  CHECK(gasnett_getenv_int_withdefault("TOOLS_SIZE", 7, 1) == 3 << 19 && gasnett_getenv_int_withdefault("TOOLS_NONE", 7, 1) == 7);
  gasnett_setenv("TOOLS_YES", "y");
  CHECK(gasnett_getenv_yesno_withdefault("TOOLS_YES", 0) && gasnett_getenv_yesno_withdefault("TOOLS_NONE", 1));
  gasnett_setenv("TOOLS_NUMBER", "3/8");
  CHECK(gasnett_getenv_dbl_withdefault("TOOLS_NUMBER", 0) == 0.375);
  CHECK(gasnett_parse_int("-010", 0) == -10 && gasnett_parse_int("0x10", 0) == 16 && gasnett_parse_int("2", 1024) == 2048);
  CHECK(!strcmp(gasnett_format_number(64 << 20, text, sizeof text, 1), "64 MB"));
  CHECK(gasnett_count0s("a\0b\0", 5) == 3 && gasnett_count0s_uint32_t(0xff00) == 3);
  CHECK(gasnett_checksum("ab", 2) != gasnett_checksum("ba", 2));
  CHECK(gasnett_cpu_count() > 0 && gasnett_getPhysMemSz(1) > 1 << 20 && *gasnett_gethostname() && gasnett_isLittleEndian());
  CHECK(GASNETT_PAGESIZE == 1 << GASNETT_PAGESHIFT && *gasnett_release_version_str());
  char *const here = gasnett_current_loc;
  CHECK(strstr(here, "tools.c") && strstr(here, "main"));
  free(here);
  gasnett_local_wmb(), gasnett_local_rmb(), gasnett_local_mb(), gasnett_compiler_fence(), gasnett_sched_yield();
  GASNETT_TRACE_PRINTF("%d", 1);
  if_pf(argc == 100) return 1;
  return done();
}
