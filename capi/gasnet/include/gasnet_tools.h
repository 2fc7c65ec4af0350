/* The tools of GASNet: atomics, locks, ticks, the environment, backtraces. They need no job and no library:
 * all of them are inlined. */
#ifndef _INCLUDED_GASNET_TOOLS_H
#define _INCLUDED_GASNET_TOOLS_H

/* As gasnet_fwd.h. */
#if !defined(_GNU_SOURCE) && !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE 1
#endif

#include <assert.h>
#include <errno.h>
#include <execinfo.h>
#include <gasnet_portable_platform.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
#define GASNETT_BEGIN_EXTERNC extern "C" {
#define GASNETT_END_EXTERNC }
#define GASNETT_EXTERNC extern "C"
#else
#define GASNETT_BEGIN_EXTERNC
#define GASNETT_END_EXTERNC
#define GASNETT_EXTERNC extern
#endif

GASNETT_BEGIN_EXTERNC

/* Programs use them, and some have their own. */
#ifndef _STRINGIFY
#define _STRINGIFY_HELPER(x) #x
#define _STRINGIFY(x) _STRINGIFY_HELPER(x)
#endif
#ifndef _CONCAT
#define _CONCAT_HELPER(a, b) a##b
#define _CONCAT(a, b) _CONCAT_HELPER(a, b)
#endif
#ifndef PRIuSZ
#define PRIuSZ "zu"
#define PRIdSZ "zd"
#define PRIxSZ "zx"
#endif
#ifndef SIZEOF_INT
#define SIZEOF_INT __SIZEOF_INT__
#endif
#ifndef SIZEOF_LONG
#define SIZEOF_LONG __SIZEOF_LONG__
#endif
#ifndef SIZEOF_SIZE_T
#define SIZEOF_SIZE_T __SIZEOF_SIZE_T__
#endif
#ifndef SIZEOF_VOID_P
#define SIZEOF_VOID_P __SIZEOF_POINTER__
#endif
#ifndef HAVE_PTHREAD_H
#define HAVE_PTHREAD_H 1
#endif

#define GASNETT_SPEC_VERSION_MAJOR 1
#define GASNETT_SPEC_VERSION_MINOR 21
/* The release whose interface this is. */
#define GASNETT_RELEASE_VERSION_MAJOR 2025
#define GASNETT_RELEASE_VERSION_MINOR 8
#define GASNETT_RELEASE_VERSION_PATCH 0

#if defined(GASNET_PAR) || defined(GASNET_PARSYNC)
#ifndef GASNETT_THREAD_SAFE
#define GASNETT_THREAD_SAFE 1
#endif
#endif
#if GASNETT_THREAD_SAFE
#define GASNETT_THREAD_MODEL PAR
#define GASNETT_THREAD_MODEL_STR "PAR"
#define GASNETT_MAX_THREADS 256
#else
#define GASNETT_THREAD_MODEL SEQ
#define GASNETT_THREAD_MODEL_STR "SEQ"
#define GASNETT_MAX_THREADS 1
#endif
#define GASNETI_MAX_THREADS GASNETT_MAX_THREADS
#define GASNETT_CONFIG_STRING "HAMR tools," GASNETT_THREAD_MODEL_STR

/* Platform. */

#if PLATFORM_ARCH_X86_64
#define GASNETT_SYSTEM_TUPLE "x86_64-unknown-linux-gnu"
#elif PLATFORM_ARCH_AARCH64
#define GASNETT_SYSTEM_TUPLE "aarch64-unknown-linux-gnu"
#endif

#define GASNETT_CACHE_LINE_BYTES 64
#define GASNETT_PAGESIZE 4096
#define GASNETT_PAGESHIFT 12

/* Notes for the compiler. */

#define GASNETT_INLINE(fnname) static inline __attribute__((__always_inline__))
#ifdef GASNETT_USE_PLEASE_INLINE
#define GASNETT_PLEASE_INLINE(fnname) GASNETT_USE_PLEASE_INLINE(fnname)
#else
#define GASNETT_PLEASE_INLINE(fnname) static inline
#endif
#define GASNETT_NEVER_INLINE(fnname, declarator) __attribute__((__noinline__)) declarator
#ifdef GASNETT_USE_RESTRICT
#define GASNETT_RESTRICT GASNETT_USE_RESTRICT
#else
#define GASNETT_RESTRICT __restrict__
#endif
#define GASNETT_FORMAT_PRINTF(fnname, fmtarg, firstvararg, declarator)                                              \
  __attribute__((__format__(__printf__, fmtarg, firstvararg))) declarator
#define GASNETT_FORMAT_PRINTF_FUNCPTR(fnname, fmtarg, firstvararg, declarator)                                      \
  __attribute__((__format__(__printf__, fmtarg, firstvararg))) declarator
#define GASNETT_FORMAT_PRINTF_FUNCPTR_ARG(fnname, fmtarg, firstvararg, declarator) declarator
#define GASNETT_NORETURN __attribute__((__noreturn__))
#define GASNETT_NORETURNP(fnname)
#define GASNETT_MALLOC __attribute__((__malloc__))
#define GASNETT_MALLOCP(fnname)
#define GASNETT_PURE __attribute__((__pure__))
#define GASNETT_PUREP(fnname)
#define GASNETT_CONST __attribute__((__const__))
#define GASNETT_CONSTP(fnname)
#define GASNETT_HOT __attribute__((__hot__))
#define GASNETT_COLD __attribute__((__cold__))
#define GASNETT_DEPRECATED __attribute__((__deprecated__))
#define GASNETT_WARN_UNUSED_RESULT __attribute__((__warn_unused_result__))
#define GASNETT_USED __attribute__((__used__))
#define GASNETT_PREDICT_TRUE(expr) __builtin_expect(!!(expr), 1)
#define GASNETT_PREDICT_FALSE(expr) __builtin_expect(!!(expr), 0)
#ifndef if_pf
#define if_pf(cond) if (GASNETT_PREDICT_FALSE(cond))
#define if_pt(cond) if (GASNETT_PREDICT_TRUE(cond))
#endif
#define gasnett_constant_p(expr) __builtin_constant_p(expr)
#define gasnett_unreachable() __builtin_unreachable()
#define gasnett_assume(cond) ((cond) ? (void)0 : __builtin_unreachable())
#define GASNETT_FALLTHROUGH __attribute__((__fallthrough__));
#define GASNETT_CURRENT_FUNCTION __func__
#define GASNETT_IDENT(identName, identText)                                                                         \
  extern char const identName[];                                                                                    \
  __attribute__((__used__)) char const identName[] = identText
#define GASNETT_IDENT_(identName, identText) GASNETT_IDENT(identName, identText)
#define GASNETT_UNUSED_ARGS1(a) ((void)(a))
#define GASNETT_UNUSED_ARGS2(a, b) ((void)(a), (void)(b))
#define GASNETT_UNUSED_ARGS3(a, b, c) ((void)(a), GASNETT_UNUSED_ARGS2(b, c))
#define GASNETT_UNUSED_ARGS4(a, b, c, d) ((void)(a), GASNETT_UNUSED_ARGS3(b, c, d))
#define GASNETT_UNUSED_ARGS5(a, b, c, d, e) ((void)(a), GASNETT_UNUSED_ARGS4(b, c, d, e))
#define GASNETT_UNUSED_ARGS6(a, b, c, d, e, f) ((void)(a), GASNETT_UNUSED_ARGS5(b, c, d, e, f))
#define GASNETT_UNUSED_ARGS7(a, b, c, d, e, f, g) ((void)(a), GASNETT_UNUSED_ARGS6(b, c, d, e, f, g))
#define GASNETT_UNUSED_ARGS8(a, b, c, d, e, f, g, h) ((void)(a), GASNETT_UNUSED_ARGS7(b, c, d, e, f, g, h))

/* Ticks: nanoseconds of the monotonic clock. */

typedef uint64_t gasnett_tick_t;
#define GASNETT_TICK_MIN ((gasnett_tick_t)0)
#define GASNETT_TICK_MAX ((gasnett_tick_t)-1)
static inline gasnett_tick_t gasnett_ticks_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
#define gasnett_ticks_to_ns(ticks) ((uint64_t)(ticks))
#define gasnett_ticks_to_us(ticks) ((uint64_t)(ticks) / 1000)
#define gasnett_tick_granularity() ((double)0.001)
#define gasnett_tick_overhead() ((double)0.025)
#define gasnett_tick_granularityus() gasnett_tick_granularity()
#define gasnett_tick_overheadus() gasnett_tick_overhead()
/* Microseconds since 1970. */
static inline uint64_t gasnett_gettimeofday_us(void) {
  struct timeval now;
  gettimeofday(&now, NULL);
  return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_usec;
}
#define gasnett_nsleep(ns) hamr_gasnett_sleep(ns)
static inline int hamr_gasnett_sleep(uint64_t ns) {
  struct timespec left;
  left.tv_sec = (time_t)(ns / 1000000000u), left.tv_nsec = (long)(ns % 1000000000u);
  while (nanosleep(&left, &left) && errno == EINTR) {}
  return 0;
}
#define GASNETT_TIMER_CONFIG timers_posixrt

/* Fences. */

#define gasnett_compiler_fence() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#define gasnett_local_wmb() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define gasnett_local_rmb() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define gasnett_local_mb() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#if GASNETT_THREAD_SAFE
#define gasnett_weak_wmb() gasnett_local_wmb()
#define gasnett_weak_rmb() gasnett_local_rmb()
#define gasnett_weak_mb() gasnett_local_mb()
#else
#define gasnett_weak_wmb() gasnett_compiler_fence()
#define gasnett_weak_rmb() gasnett_compiler_fence()
#define gasnett_weak_mb() gasnett_compiler_fence()
#endif
#if defined(__x86_64__)
#define gasnett_spinloop_hint() (__builtin_ia32_pause(), gasnett_compiler_fence())
#else
#define gasnett_spinloop_hint() gasnett_compiler_fence()
#endif
#define gasnett_spinloop_until(cond)                                                                                \
  do {                                                                                                              \
    while (!(cond)) gasnett_spinloop_hint();                                                                        \
    gasnett_local_rmb();                                                                                            \
  } while (0)
#define gasnett_prefetch_read_hint(p) __builtin_prefetch((p), 0)
#define gasnett_prefetch_write_hint(p) __builtin_prefetch((p), 1)

/* Atomics: sequentially consistent always, which is at least what any flag asks for. */

#define GASNETT_ATOMIC_NONE 0
#define GASNETT_ATOMIC_RMB_PRE 1
#define GASNETT_ATOMIC_WMB_PRE 2
#define GASNETT_ATOMIC_MB_PRE 3
#define GASNETT_ATOMIC_RMB_POST 4
#define GASNETT_ATOMIC_WMB_POST 8
#define GASNETT_ATOMIC_MB_POST 12
#define GASNETT_ATOMIC_RMB_POST_IF_TRUE 16
#define GASNETT_ATOMIC_RMB_POST_IF_FALSE 32
#define GASNETT_ATOMIC_REL GASNETT_ATOMIC_WMB_PRE
#define GASNETT_ATOMIC_ACQ GASNETT_ATOMIC_RMB_POST
#define GASNETT_ATOMIC_ACQ_IF_TRUE GASNETT_ATOMIC_RMB_POST_IF_TRUE
#define GASNETT_ATOMIC_ACQ_IF_FALSE GASNETT_ATOMIC_RMB_POST_IF_FALSE
#define GASNETT_HAVE_ATOMIC_ADD_SUB 1
#define GASNETT_HAVE_ATOMIC_CAS 1
#define GASNETT_HAVE_STRONGATOMIC_ADD_SUB 1
#define GASNETT_HAVE_STRONGATOMIC_CAS 1

#define HAMR_GASNETT_ATOMIC(NAME, V)                                                                                \
  typedef struct {                                                                                                  \
    volatile V hamr_value;                                                                                          \
  } NAME##_t;                                                                                                       \
  static inline void NAME##_set(NAME##_t *p, V v, int flags) {                                                      \
    (void)flags;                                                                                                    \
    __atomic_store_n(&p->hamr_value, v, __ATOMIC_SEQ_CST);                                                          \
  }                                                                                                                 \
  static inline V NAME##_read(NAME##_t *p, int flags) {                                                             \
    (void)flags;                                                                                                    \
    return __atomic_load_n(&p->hamr_value, __ATOMIC_SEQ_CST);                                                       \
  }                                                                                                                 \
  static inline V NAME##_add(NAME##_t *p, V v, int flags) {                                                         \
    (void)flags;                                                                                                    \
    return __atomic_add_fetch(&p->hamr_value, v, __ATOMIC_SEQ_CST);                                                 \
  }                                                                                                                 \
  static inline V NAME##_subtract(NAME##_t *p, V v, int flags) {                                                    \
    (void)flags;                                                                                                    \
    return __atomic_sub_fetch(&p->hamr_value, v, __ATOMIC_SEQ_CST);                                                 \
  }                                                                                                                 \
  static inline void NAME##_increment(NAME##_t *p, int flags) { (void)NAME##_add(p, 1, flags); }                    \
  static inline void NAME##_decrement(NAME##_t *p, int flags) { (void)NAME##_subtract(p, 1, flags); }               \
  static inline int NAME##_decrement_and_test(NAME##_t *p, int flags) { return NAME##_subtract(p, 1, flags) == 0; } \
  static inline V NAME##_swap(NAME##_t *p, V v, int flags) {                                                        \
    (void)flags;                                                                                                    \
    return __atomic_exchange_n(&p->hamr_value, v, __ATOMIC_SEQ_CST);                                                \
  }                                                                                                                 \
  static inline int NAME##_compare_and_swap(NAME##_t *p, V oldval, V newval, int flags) {                           \
    (void)flags;                                                                                                    \
    return __atomic_compare_exchange_n(&p->hamr_value, &oldval, newval, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);     \
  }
typedef uint64_t gasnett_atomic_val_t;
typedef int64_t gasnett_atomic_sval_t;
HAMR_GASNETT_ATOMIC(gasnett_atomic, gasnett_atomic_val_t)
HAMR_GASNETT_ATOMIC(gasnett_atomic32, uint32_t)
HAMR_GASNETT_ATOMIC(gasnett_atomic64, uint64_t)
#define gasnett_atomic_init(v) {(v)}
#define gasnett_atomic32_init(v) {(v)}
#define gasnett_atomic64_init(v) {(v)}
#define gasnett_atomic_signed(v) ((gasnett_atomic_sval_t)(v))
#define GASNETT_ATOMIC_MAX ((gasnett_atomic_val_t)UINT64_MAX)
#define GASNETT_ATOMIC_SIGNED_MIN ((gasnett_atomic_sval_t)INT64_MIN)
#define GASNETT_ATOMIC_SIGNED_MAX ((gasnett_atomic_sval_t)INT64_MAX)
#define gasnett_strongatomic_t gasnett_atomic_t
#define gasnett_strongatomic_init gasnett_atomic_init
#define gasnett_strongatomic_set gasnett_atomic_set
#define gasnett_strongatomic_read gasnett_atomic_read
#define gasnett_strongatomic_add gasnett_atomic_add
#define gasnett_strongatomic_subtract gasnett_atomic_subtract
#define gasnett_strongatomic_increment gasnett_atomic_increment
#define gasnett_strongatomic_decrement gasnett_atomic_decrement
#define gasnett_strongatomic_decrement_and_test gasnett_atomic_decrement_and_test
#define gasnett_strongatomic_swap gasnett_atomic_swap
#define gasnett_strongatomic_compare_and_swap gasnett_atomic_compare_and_swap
#define gasnett_strongatomic32_t gasnett_atomic32_t
#define gasnett_strongatomic32_init gasnett_atomic32_init
#define gasnett_strongatomic32_set gasnett_atomic32_set
#define gasnett_strongatomic32_read gasnett_atomic32_read
#define gasnett_strongatomic32_add gasnett_atomic32_add
#define gasnett_strongatomic32_subtract gasnett_atomic32_subtract
#define gasnett_strongatomic32_increment gasnett_atomic32_increment
#define gasnett_strongatomic32_decrement gasnett_atomic32_decrement
#define gasnett_strongatomic32_decrement_and_test gasnett_atomic32_decrement_and_test
#define gasnett_strongatomic32_swap gasnett_atomic32_swap
#define gasnett_strongatomic32_compare_and_swap gasnett_atomic32_compare_and_swap
#define gasnett_strongatomic64_t gasnett_atomic64_t
#define gasnett_strongatomic64_init gasnett_atomic64_init
#define gasnett_strongatomic64_set gasnett_atomic64_set
#define gasnett_strongatomic64_read gasnett_atomic64_read
#define gasnett_strongatomic64_add gasnett_atomic64_add
#define gasnett_strongatomic64_subtract gasnett_atomic64_subtract
#define gasnett_strongatomic64_increment gasnett_atomic64_increment
#define gasnett_strongatomic64_decrement gasnett_atomic64_decrement
#define gasnett_strongatomic64_decrement_and_test gasnett_atomic64_decrement_and_test
#define gasnett_strongatomic64_swap gasnett_atomic64_swap
#define gasnett_strongatomic64_compare_and_swap gasnett_atomic64_compare_and_swap
#define gasnett_strongatomic_val_t gasnett_atomic_val_t
#define gasnett_strongatomic_sval_t gasnett_atomic_sval_t
#define gasnett_strongatomic_signed(v) gasnett_atomic_signed(v)
#define GASNETT_STRONGATOMIC_MAX GASNETT_ATOMIC_MAX
#define GASNETT_STRONGATOMIC_SIGNED_MIN GASNETT_ATOMIC_SIGNED_MIN
#define GASNETT_STRONGATOMIC_SIGNED_MAX GASNETT_ATOMIC_SIGNED_MAX
#define GASNETT_ATOMIC_CONFIG "compiler"
#define GASNETT_ATOMIC32_CONFIG "compiler"
#define GASNETT_ATOMIC64_CONFIG "compiler"

/* Locks. */

#if GASNETT_THREAD_SAFE || GASNETT_USE_TRUE_MUTEXES
typedef pthread_mutex_t gasnett_mutex_t;
typedef pthread_cond_t gasnett_cond_t;
typedef pthread_rwlock_t gasnett_rwlock_t;
#define GASNETT_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#define GASNETT_COND_INITIALIZER PTHREAD_COND_INITIALIZER
#define GASNETT_RWLOCK_INITIALIZER PTHREAD_RWLOCK_INITIALIZER
#define gasnett_mutex_init(m) ((void)pthread_mutex_init((m), NULL))
#define gasnett_mutex_destroy(m) ((void)pthread_mutex_destroy(m))
#define gasnett_mutex_destroy_ignoreerr(m) pthread_mutex_destroy(m)
#define gasnett_mutex_lock(m) ((void)pthread_mutex_lock(m))
#define gasnett_mutex_unlock(m) ((void)pthread_mutex_unlock(m))
#define gasnett_mutex_trylock(m) pthread_mutex_trylock(m)
#define gasnett_cond_init(c) ((void)pthread_cond_init((c), NULL))
#define gasnett_cond_destroy(c) ((void)pthread_cond_destroy(c))
#define gasnett_cond_signal(c) ((void)pthread_cond_signal(c))
#define gasnett_cond_broadcast(c) ((void)pthread_cond_broadcast(c))
#define gasnett_cond_wait(c, m) ((void)pthread_cond_wait((c), (m)))
#define gasnett_rwlock_init(l) ((void)pthread_rwlock_init((l), NULL))
#define gasnett_rwlock_destroy(l) ((void)pthread_rwlock_destroy(l))
#define gasnett_rwlock_rdlock(l)                                                                                    \
  do {                                                                                                              \
  } while (pthread_rwlock_rdlock(l) == EAGAIN)
#define gasnett_rwlock_wrlock(l) ((void)pthread_rwlock_wrlock(l))
#define gasnett_rwlock_unlock(l) ((void)pthread_rwlock_unlock(l))
#define gasnett_rwlock_tryrdlock(l) pthread_rwlock_tryrdlock(l)
#define gasnett_rwlock_trywrlock(l) pthread_rwlock_trywrlock(l)
#else
typedef struct {
  int hamr_unused;
} gasnett_mutex_t;
typedef gasnett_mutex_t gasnett_cond_t;
typedef gasnett_mutex_t gasnett_rwlock_t;
#define GASNETT_MUTEX_INITIALIZER {0}
#define GASNETT_COND_INITIALIZER {0}
#define GASNETT_RWLOCK_INITIALIZER {0}
#define gasnett_mutex_init(m) ((void)(m))
#define gasnett_mutex_destroy(m) ((void)(m))
#define gasnett_mutex_destroy_ignoreerr(m) ((void)(m), 0)
#define gasnett_mutex_lock(m) ((void)(m))
#define gasnett_mutex_unlock(m) ((void)(m))
#define gasnett_mutex_trylock(m) ((void)(m), 0)
#define gasnett_cond_init(c) ((void)(c))
#define gasnett_cond_destroy(c) ((void)(c))
#define gasnett_cond_signal(c) ((void)(c))
#define gasnett_cond_broadcast(c) ((void)(c))
#define gasnett_cond_wait(c, m) gasnett_fatalerror("gasnett_cond_wait: there is one thread, which would wait for good")
#define gasnett_rwlock_init(l) ((void)(l))
#define gasnett_rwlock_destroy(l) ((void)(l))
#define gasnett_rwlock_rdlock(l) ((void)(l))
#define gasnett_rwlock_wrlock(l) ((void)(l))
#define gasnett_rwlock_unlock(l) ((void)(l))
#define gasnett_rwlock_tryrdlock(l) ((void)(l), 0)
#define gasnett_rwlock_trywrlock(l) ((void)(l), 0)
#endif
#define gasnett_mutex_assertlocked(m) ((void)(m))
#define gasnett_mutex_assertunlocked(m) ((void)(m))
#define gasnett_rwlock_assertrdlocked(l) ((void)(l))
#define gasnett_rwlock_assertwrlocked(l) ((void)(l))
#define gasnett_rwlock_assertlocked(l) ((void)(l))
#define gasnett_rwlock_assertunlocked(l) ((void)(l))

#if GASNETT_THREAD_SAFE
#define HAMR_GASNETT_LOCAL __thread
#else
#define HAMR_GASNETT_LOCAL
#endif
#define GASNETT_THREADKEY_DECLARE(key) extern HAMR_GASNETT_LOCAL void *hamr_gasnett_key_##key
#define GASNETT_THREADKEY_DEFINE(key) HAMR_GASNETT_LOCAL void *hamr_gasnett_key_##key
#define gasnett_threadkey_init(key) ((void)0)
#define gasnett_threadkey_get(key) hamr_gasnett_key_##key
#define gasnett_threadkey_set(key, value) ((void)(hamr_gasnett_key_##key = (void *)(value)))
#define gasnett_threadkey_get_noinit(key) gasnett_threadkey_get(key)
#define gasnett_threadkey_set_noinit(key, value) gasnett_threadkey_set(key, value)
/* Names that programs mention, so that a compiler does not call them unused. */
static inline void _gasneti_threadkey_init(void *key) { (void)key; }

/* Ends. */

static inline void gasnett_flush_streams(void) {
  fflush(stdout);
  fflush(stderr);
}
static inline void gasnett_close_streams(void) {
  fclose(stdin);
  fclose(stdout);
  fclose(stderr);
}
static inline void gasnett_sched_yield(void) { sched_yield(); }
#define gasnett_killmyprocess(exitcode) _exit(exitcode)
typedef struct {
  const char *name;
  int (*fnp)(int);
  int threadsupport;
} gasnett_backtrace_type_t;
/* The program's own way to print a backtrace: it defines this variable, or sets it. It comes first, unless
 * GASNET_BACKTRACE_TYPE names others only; a result other than 0 lets the library print its own. */
#ifdef __cplusplus
extern __attribute__((__weak__)) gasnett_backtrace_type_t gasnett_backtrace_user;
#define HAMR_GASNETT_HAS_USER (&gasnett_backtrace_user != NULL)
#else
gasnett_backtrace_type_t gasnett_backtrace_user __attribute__((__common__));
#define HAMR_GASNETT_HAS_USER 1
#endif
static inline int hamr_gasnett_users_backtrace(int fd) {
  const char *const types = getenv("GASNET_BACKTRACE_TYPE");
  if (!HAMR_GASNETT_HAS_USER || !gasnett_backtrace_user.fnp || !gasnett_backtrace_user.name) return 1;
  return types && !strstr(types, gasnett_backtrace_user.name) ? 1 : gasnett_backtrace_user.fnp(fd);
}
static inline int gasnett_print_backtrace(int fd) {
  void *frames[64];
  if (hamr_gasnett_users_backtrace(fd)) backtrace_symbols_fd(frames, backtrace(frames, 64), fd);
  return 0;
}
static inline int hamr_gasnett_yes(const char *name, int otherwise) {
  const char *const text = getenv(name);
  if (!text || !*text) return otherwise;
  return *text == '1' || *text == 'y' || *text == 'Y';
}
static inline int hamr_gasnett_backtrace_if(int fd) {
  return hamr_gasnett_yes("GASNET_BACKTRACE", 0) ? gasnett_print_backtrace(fd) : 1;
}
/* A variable, which a program may set; one for all of its files. */
__attribute__((__weak__)) int (*gasnett_print_backtrace_ifenabled)(int) = hamr_gasnett_backtrace_if;
#define gasnett_backtrace_init(exename) ((void)(exename))
static inline void gasnett_freezeForDebuggerNow(volatile int *flag, const char *flagsymname) {
  fprintf(stderr, "process %d waits for a debugger to set %s to 1\n", (int)getpid(), flagsymname);
  while (!*flag) sleep(1);
}
static inline void gasnett_freezeForDebuggerErr(void) {
  static volatile int gasnett_go_on = 0;
  if (hamr_gasnett_yes("GASNET_FREEZE_ON_ERROR", 0)) gasnett_freezeForDebuggerNow(&gasnett_go_on, "gasnett_go_on");
}
__attribute__((__noreturn__, __cold__, __format__(__printf__, 4, 5))) static inline void hamr_gasnett_fatal(
    const char *file, int line, const char *function, const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fflush(stdout);
  if (file) fprintf(stderr, "*** FATAL ERROR (process %d): in %s at %s:%d: %s\n", (int)getpid(), function, file, line, text);
  else fprintf(stderr, "*** FATAL ERROR (process %d): %s\n", (int)getpid(), text);
  fflush(stderr);
  gasnett_freezeForDebuggerErr();
  gasnett_print_backtrace_ifenabled(STDERR_FILENO);
  abort();
}
#define gasnett_fatalerror(...) hamr_gasnett_fatal(__FILE__, __LINE__, __func__, __VA_ARGS__)
#define gasnett_fatalerror_nopos(...) hamr_gasnett_fatal(NULL, 0, NULL, __VA_ARGS__)
static inline char *hamr_gasnett_location(const char *file, int line, const char *function) {
  const size_t len = strlen(file) + strlen(function) + 32;
  char *const text = (char *)malloc(len);
  if (text) snprintf(text, len, "%s at %s:%d", function, file, line);
  return text;
}
#define gasnett_current_loc hamr_gasnett_location(__FILE__, __LINE__, __func__)
typedef void (*gasnett_sighandlerfn_t)(int);
static inline gasnett_sighandlerfn_t gasnett_reghandler(int sigtocatch, gasnett_sighandlerfn_t fp) {
  return signal(sigtocatch, fp);
}

/* Environment. */

#define gasnett_getenv(name) getenv(name)
#define gasnett_setenv(name, value) ((void)setenv((name), (value), 1))
#define gasnett_unsetenv(name) ((void)unsetenv(name))
static inline int gasnett_verboseenv(void) { return hamr_gasnett_yes("GASNET_VERBOSEENV", 0); }
static inline void gasnett_envstr_display(const char *key, const char *val, int is_dflt) {
  if (gasnett_verboseenv())
    fprintf(stderr, "ENV parameter: %s = %s%s\n", key, val ? val : "*not set*", is_dflt ? " (default)" : "");
}
static inline char *gasnett_format_number(int64_t val, char *buf, size_t bufsz, int is_mem_size) {
  static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
  int unit = 0;
  if (!is_mem_size) {
    snprintf(buf, bufsz, "%" PRIi64, val);
    return buf;
  }
  while (unit < 4 && val && !(val % 1024)) val /= 1024, unit++;
  snprintf(buf, bufsz, "%" PRIi64 " %s", val, units[unit]);
  return buf;
}
static inline double hamr_gasnett_number(const char *text, char **end) {
  const double over = strtod(text, end);
  if (**end == '/') return over / strtod(*end + 1, end);
  return over;
}
static inline int64_t gasnett_parse_int(const char *str, uint64_t mem_size_multiplier) {
  char *end;
  double size;
  if (!mem_size_multiplier) {
    /* Decimal or hexadecimal, never octal. */
    const char *digits = str + strspn(str, " \t+-");
    return strtoll(str, &end, digits[0] == '0' && (digits[1] | 32) == 'x' ? 16 : 10);
  }
  if (str[0] == '0' && (str[1] | 32) == 'x') size = (double)strtoull(str, &end, 16);
  else size = hamr_gasnett_number(str, &end);
  while (*end == ' ') end++;
  switch (*end | 32) {
    case 't': return (int64_t)(size * (double)(1ull << 40));
    case 'g': return (int64_t)(size * (double)(1ull << 30));
    case 'm': return (int64_t)(size * (double)(1ull << 20));
    case 'k': return (int64_t)(size * (double)(1ull << 10));
    case 'b': return (int64_t)size;
    default: return (int64_t)(size * (double)mem_size_multiplier);
  }
}
static inline void gasnett_envint_display(const char *key, int64_t val, int is_dflt, int is_mem_size) {
  char text[64];
  gasnett_envstr_display(key, gasnett_format_number(val, text, sizeof text, is_mem_size), is_dflt);
}
static inline void gasnett_envdbl_display(const char *key, double val, int is_dflt) {
  char text[64];
  snprintf(text, sizeof text, "%g", val);
  gasnett_envstr_display(key, text, is_dflt);
}
static inline const char *hamr_gasnett_set(const char *name) {
  const char *const text = getenv(name);
  return text && *text ? text : NULL;
}
static inline char *gasnett_getenv_withdefault(const char *keyname, const char *defaultval) {
  const char *const text = hamr_gasnett_set(keyname);
  gasnett_envstr_display(keyname, text ? text : defaultval, !text);
  return (char *)(text ? text : defaultval);
}
static inline int gasnett_getenv_yesno_withdefault(const char *keyname, int defaultval) {
  const int value = hamr_gasnett_yes(keyname, defaultval);
  gasnett_envstr_display(keyname, value ? "YES" : "NO", !hamr_gasnett_set(keyname));
  return value;
}
static inline int64_t gasnett_getenv_int_withdefault(const char *keyname, int64_t defaultval,
                                                     uint64_t mem_size_multiplier) {
  const char *const text = hamr_gasnett_set(keyname);
  const int64_t value = text ? gasnett_parse_int(text, mem_size_multiplier) : defaultval;
  gasnett_envint_display(keyname, value, !text, mem_size_multiplier != 0);
  return value;
}
static inline double gasnett_getenv_dbl_withdefault(const char *keyname, double defaultval) {
  const char *const text = hamr_gasnett_set(keyname);
  char *end;
  const double value = text ? hamr_gasnett_number(text, &end) : defaultval;
  gasnett_envdbl_display(keyname, value, !text);
  return value;
}

/* The system. */

static inline const char *gasnett_gethostname(void) {
  static char name[256];
  if (!*name) gethostname(name, sizeof name - 1);
  return name;
}
/* The path of this program. */
static inline const char *gasnett_exe_name(void) {
  static char path[4096];
  if (!*path && readlink("/proc/self/exe", path, sizeof path - 1) <= 0) snprintf(path, sizeof path, "unknown");
  return path;
}
/* Fresh memory of the system, for as long as the process; MAP_FAILED: there is none. */
static inline void *gasnett_mmap(uintptr_t bytes) {
  return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static inline int gasnett_cpu_count(void) { return (int)sysconf(_SC_NPROCESSORS_ONLN); }
static inline uint64_t gasnett_getPhysMemSz(int failureIsFatal) {
  (void)failureIsFatal;
  return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}
static inline int gasnett_isLittleEndian(void) { return 1; }
static inline const char *gasnett_performance_warning_str(void) { return ""; }
static inline const char *gasnett_release_version_str(void) { return "2025.8.0 (hamr)"; }
static inline uint64_t gasnett_release_version(void) { return 20250800; }
/* Deprecated by GASNet; not there. */
static inline int gasnett_set_affinity(int rank) {
  (void)rank;
  return 1;
}
static inline int gasnett_maximize_rlimit(int res, const char *lim_desc) {
  struct rlimit limit;
  (void)lim_desc;
  if (getrlimit((__rlimit_resource_t)res, &limit)) return 0;
  limit.rlim_cur = limit.rlim_max;
  return !setrlimit((__rlimit_resource_t)res, &limit);
}
static inline int gasnett_maximize_rlimits(void) {
  return gasnett_maximize_rlimit(RLIMIT_CPU, "RLIMIT_CPU") & gasnett_maximize_rlimit(RLIMIT_DATA, "RLIMIT_DATA") &
         gasnett_maximize_rlimit(RLIMIT_AS, "RLIMIT_AS");
}
/* FNV-1a. */
static inline uint64_t gasnett_checksum(const void *p, int numbytes) {
  const unsigned char *byte = (const unsigned char *)p;
  uint64_t sum = 0xcbf29ce484222325u;
  while (numbytes-- > 0) sum = (sum ^ *byte++) * 0x100000001b3u;
  return sum;
}
static inline size_t gasnett_count0s(const void *p, size_t numbytes) {
  const unsigned char *byte = (const unsigned char *)p;
  size_t zeros = 0;
  while (numbytes--) zeros += !*byte++;
  return zeros;
}
static inline size_t gasnett_count0s_copy(void *dst, const void *src, size_t numbytes) {
  return gasnett_count0s(memcpy(dst, src, numbytes), numbytes);
}
static inline int gasnett_count0s_uint32_t(uint32_t x) { return (int)gasnett_count0s(&x, sizeof x); }
static inline int gasnett_count0s_uint64_t(uint64_t x) { return (int)gasnett_count0s(&x, sizeof x); }
static inline int gasnett_count0s_uintptr_t(uintptr_t x) { return (int)gasnett_count0s(&x, sizeof x); }

/* Traces and statistics: none. */

static inline void _gasnett_trace_printf_noop(const char *format, ...) { (void)format; }
#define GASNETT_TRACE_ENABLED 0
#define GASNETT_TRACE_GET_TRACELOCAL() 0
#define GASNETT_TRACE_SET_TRACELOCAL(newval) ((void)(newval))
#define GASNETT_TRACE_PRINTF(...) ((void)0)
#define GASNETT_TRACE_PRINTF_FORCE(...) ((void)0)
#define GASNETT_STATS_PRINTF(...) ((void)0)
#define GASNETT_STATS_PRINTF_FORCE(...) ((void)0)
#define GASNETT_TRACE_GETMASK() ""
#define GASNETT_STATS_GETMASK() ""
#define GASNETT_TRACE_SETMASK(mask) ((void)(mask))
#define GASNETT_STATS_SETMASK(mask) ((void)(mask))
#define GASNETT_STATS_DUMP(reset) ((void)(reset))
#define GASNETT_TRACE_SETSOURCELINE(file, line) ((void)0)
#define GASNETT_TRACE_GETSOURCELINE(pfile, pline) ((void)0)
#define GASNETT_TRACE_FREEZESOURCELINE() ((void)0)
#define GASNETT_TRACE_UNFREEZESOURCELINE() ((void)0)

GASNETT_END_EXTERNC

#endif
