/* What the headers' inlined calls read of the library, and how they reach other ranks' memory: part of gasnetex.h.
 *
 * The library has the same structures (src/team.rs, src/segments.rs, src/job.rs) and writes them before a call of it returns:
 * in between the compiler may keep what it has read. */
#ifndef HAMR_GASNET_BLOCK_H
#define HAMR_GASNET_BLOCK_H

/* The segment of a rank of the job: a line. */
struct hamr_gex_mapped {
  uintptr_t owner; /* its address at its owner */
  uintptr_t words; /* offsets at which 16 bytes may begin: its size - 15; 0: none */
  char *local;     /* its address here */
  uintptr_t size;
  uintptr_t library[4];
};
extern struct hamr_gex_mapped hamr_gex_mapped[GASNET_MAXNODES];

/* A team. */
struct hamr_gex_tm {
  uint32_t rank, size;
  const struct hamr_gex_mapped *mapped[GASNET_MAXNODES]; /* of its members; others have no bytes */
};
/* The team of all ranks. */
extern struct hamr_gex_tm hamr_gex_all;

/* Not 0: the library tells whether this thread may communicate. First that a handler runs, in SEQ all that the thread of main
 * is in; then that a thread has ever had a lock or a prepared message, where there are several. */
extern int32_t hamr_gex_may_be_restricted[2];
#if defined(GASNET_SEQ)
#define HAMR_GEX_MAY_BE_RESTRICTED() (hamr_gex_may_be_restricted[0])
#else
#define HAMR_GEX_MAY_BE_RESTRICTED() (hamr_gex_may_be_restricted[0] | hamr_gex_may_be_restricted[1])
#endif

/* Where bytes are in this process, exactly, also where there are none. It changes nothing that the compiler has read. */
char *hamr_gex_reach(const char *function, gex_TM_t tm, gex_Rank_t rank, const void *addr, size_t nbytes)
    __attribute__((cold, pure));
/* What is wrong with such a call, in one sentence, and the job's end. */
void hamr_gex_unreached(const char *function, gex_TM_t tm, gex_Rank_t rank, const void *addr, size_t nbytes)
    __attribute__((noreturn, cold));

static inline gex_TM_t hamr_gex_team(const char *function, gex_TM_t tm) {
  if (__builtin_expect(!tm, 0)) hamr_gex_unreached(function, tm, 0, 0, 0);
  return tm;
}

/* The same by a few comparisons, for which it loads whatever the result: so a compiler can do both in front of a loop. Of 16 bytes
 * or fewer, a number that the compiler knows, one decides. */
static inline char *hamr_gex_at(const char *function, gex_TM_t tm, gex_Rank_t rank, const void *addr, size_t nbytes) {
  const struct hamr_gex_mapped *const there = tm->mapped[rank % GASNET_MAXNODES];
  const uintptr_t off = (uintptr_t)addr - there->owner;
  char *const at = there->local + off;
  const int is_short = __builtin_constant_p(nbytes <= 16) && nbytes <= 16;
  const int is_inside = is_short ? off < there->words : (off <= there->size) & (nbytes <= there->size - off);
  const int is_known = is_inside & (rank < tm->size) & !HAMR_GEX_MAY_BE_RESTRICTED();
  return __builtin_expect(is_known, 1) ? at : hamr_gex_reach(function, tm, rank, addr, nbytes);
}

/* 1, 2, 4 and 8 bytes are one access: where the processor can do so at any address, else at a multiple of their number.
 * Other numbers are copied. An access stays where it is among those of other puts and gets (volatile). */
#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__)
#define HAMR_GEX_IS_WORD(addr, nbytes) 1
#define HAMR_GEX_WORD __attribute__((__may_alias__, __aligned__(1)))
#else
#define HAMR_GEX_IS_WORD(addr, nbytes) (!((uintptr_t)(addr) & ((nbytes)-1)))
#define HAMR_GEX_WORD __attribute__((__may_alias__))
#endif
typedef uint16_t HAMR_GEX_WORD hamr_gex_u16;
typedef uint32_t HAMR_GEX_WORD hamr_gex_u32;
typedef uint64_t HAMR_GEX_WORD hamr_gex_u64;

/* A put is there before what follows it. */
#define HAMR_GEX_PUT_WORD(n, word)          \
  case n:                                   \
    if (HAMR_GEX_IS_WORD(to, n)) {          \
      word w;                               \
      memcpy(&w, src, n);                   \
      *(volatile word *)to = w;             \
      break;                                \
    }                                       \
    memmove(to, src, n);                    \
    break;
static inline void hamr_gex_put(const char *function, gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src,
                                size_t nbytes) {
  char *const to = hamr_gex_at(function, tm, rank, dest, nbytes);
  switch (nbytes) {
    HAMR_GEX_PUT_WORD(1, uint8_t)
    HAMR_GEX_PUT_WORD(2, hamr_gex_u16)
    HAMR_GEX_PUT_WORD(4, hamr_gex_u32)
    HAMR_GEX_PUT_WORD(8, hamr_gex_u64)
    default: memmove(to, src, nbytes);
  }
  __atomic_thread_fence(__ATOMIC_RELEASE);
}
/* A get is behind the gets before it; one of a word by itself, where the processor keeps the order of loads. */
#if defined(__x86_64__) || defined(__i386__)
#define HAMR_GEX_BEHIND_GETS() ((void)0)
#else
#define HAMR_GEX_BEHIND_GETS() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#endif
#define HAMR_GEX_GET_WORD(n, word, take)                \
  case n:                                               \
    if (HAMR_GEX_IS_WORD(from, n)) {                    \
      const word w = *(const volatile word *)from;      \
      take;                                             \
    }                                                   \
    break;
#define HAMR_GEX_GET_WORDS(take)           \
  HAMR_GEX_GET_WORD(1, uint8_t, take)      \
  HAMR_GEX_GET_WORD(2, hamr_gex_u16, take) \
  HAMR_GEX_GET_WORD(4, hamr_gex_u32, take) \
  HAMR_GEX_GET_WORD(8, hamr_gex_u64, take) \
  default: break;
static inline void hamr_gex_get(const char *function, gex_TM_t tm, void *dest, gex_Rank_t rank, const void *src,
                                size_t nbytes) {
  const char *const from = hamr_gex_at(function, tm, rank, src, nbytes);
  HAMR_GEX_BEHIND_GETS();
  switch (nbytes) { HAMR_GEX_GET_WORDS(memcpy(dest, &w, nbytes); return) }
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  memmove(dest, from, nbytes);
}
/* Not by way of memory, where it would be read wider than it was written. Little-endian: a value's low bytes come first. */
static inline gex_RMA_Value_t hamr_gex_get_value(const char *function, gex_TM_t tm, gex_Rank_t rank, const void *src,
                                                 size_t nbytes) {
  gex_RMA_Value_t value = 0;
  const char *from;
  if (__builtin_expect(nbytes > sizeof value, 0)) hamr_gex_unreached(function, tm, rank, src, nbytes);
  from = hamr_gex_at(function, tm, rank, src, nbytes);
  HAMR_GEX_BEHIND_GETS();
  switch (nbytes) { HAMR_GEX_GET_WORDS(return w) }
  while (nbytes--) value = value << 8 | ((const volatile unsigned char *)from)[nbytes];
  return value;
}
static inline void hamr_gex_put_value(const char *function, gex_TM_t tm, gex_Rank_t rank, void *dest,
                                      gex_RMA_Value_t value, size_t nbytes) {
  if (__builtin_expect(nbytes > sizeof value, 0)) hamr_gex_unreached(function, tm, rank, dest, nbytes);
  hamr_gex_put(function, tm, rank, dest, &value, nbytes);
}

#endif
