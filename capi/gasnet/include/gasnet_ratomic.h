/* Remote atomics. All segments are in coherent memory, so an operation is the processor's own, or a
 * compare-exchange in a loop, and complete when it returns. One of integers that the processor has, a sum and a difference are done
 * here, inlined where the compiler knows which; the library has all (src/ratomic.rs). Each but SET acquires, each but GET releases. */
#ifndef _INCLUDED_GASNET_RATOMIC_H
#define _INCLUDED_GASNET_RATOMIC_H

#include <gasnetex.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hamr_gex_ad *gex_AD_t;
#define GEX_AD_INVALID ((gex_AD_t)0)
void gex_AD_Create(gex_AD_t *ad_p, gex_TM_t tm, gex_DT_t dt, gex_OP_t ops, gex_Flags_t flags);
void gex_AD_Destroy(gex_AD_t ad);
gex_Flags_t gex_AD_QueryFlags(gex_AD_t ad);
gex_TM_t gex_AD_QueryTM(gex_AD_t ad);
gex_DT_t gex_AD_QueryDT(gex_AD_t ad);
gex_OP_t gex_AD_QueryOps(gex_AD_t ad);
void gex_AD_SetCData(gex_AD_t ad, const void *val);
void *gex_AD_QueryCData(gex_AD_t ad);

/* The compiler knows an operation only where it is inlined, also in code that it takes for cold. Others are done by a function. */
#define HAMR_GEX_AD_INLINED static inline __attribute__((__always_inline__))

/* What the inlined operations read of a domain. The library has the same structure (src/ratomic.rs). */
struct hamr_gex_ad {
  gex_DT_t data_type;
  gex_OP_t ops;
  const gex_Rank_t *jobranks; /* of its team */
  gex_Rank_t size;
};
/* Where a number is in this process; NULL: the library tells. */
HAMR_GEX_AD_INLINED void *hamr_gex_ad_at(gex_AD_t ad, gex_DT_t data_type, gex_OP_t op, gex_Rank_t rank, const void *addr,
                                   gex_Flags_t flags, size_t nbytes) {
  if (ad->data_type == data_type && (ad->ops & op) && rank < ad->size && !(flags & GEX_FLAG_RANK_IS_JOBRANK)) {
    const struct hamr_gex_mapped *const there = &hamr_gex_mapped[ad->jobranks ? ad->jobranks[rank] : rank];
    const uintptr_t off = (uintptr_t)addr - there->owner;
    if (off < there->words && !((uintptr_t)addr & (nbytes - 1))) return there->local + off;
  }
  return NULL;
}
#define HAMR_GEX_AD_DO(op, is)                                                                                            \
  case GEX_OP_##op: (void)(is); return 1;                                                                                 \
  case GEX_OP_F##op: was = (is); break;
/* 0: it has done nothing. */
#define HAMR_GEX_AD_INLINE(DT, T)                                                                                         \
  HAMR_GEX_AD_INLINED int hamr_gex_ad_inline_##DT(gex_AD_t ad, T *result_p, gex_Rank_t rank, void *addr, gex_OP_t op, T a, \
                                            T b, gex_Flags_t flags) {                                                     \
    T was = a, *const at = (T *)hamr_gex_ad_at(ad, GEX_DT_##DT, op, rank, addr, flags, sizeof(T));                        \
    if (__builtin_expect(!at, 0)) return 0;                                                                               \
    switch (op) {                                                                                                         \
      HAMR_GEX_AD_DO(ADD, __atomic_fetch_add(at, a, __ATOMIC_ACQ_REL))                                                    \
      HAMR_GEX_AD_DO(SUB, __atomic_fetch_sub(at, a, __ATOMIC_ACQ_REL))                                                    \
      HAMR_GEX_AD_DO(INC, __atomic_fetch_add(at, 1, __ATOMIC_ACQ_REL))                                                    \
      HAMR_GEX_AD_DO(DEC, __atomic_fetch_sub(at, 1, __ATOMIC_ACQ_REL))                                                    \
      HAMR_GEX_AD_DO(AND, __atomic_fetch_and(at, a, __ATOMIC_ACQ_REL))                                                    \
      HAMR_GEX_AD_DO(OR, __atomic_fetch_or(at, a, __ATOMIC_ACQ_REL))                                                      \
      HAMR_GEX_AD_DO(XOR, __atomic_fetch_xor(at, a, __ATOMIC_ACQ_REL))                                                    \
      case GEX_OP_CAS:                                                                                                    \
      case GEX_OP_FCAS:                                                                                                   \
        (void)__atomic_compare_exchange_n(at, &was, b, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);                            \
        if (op == GEX_OP_CAS) return 1;                                                                                   \
        break;                                                                                                            \
      case GEX_OP_SWAP: was = __atomic_exchange_n(at, a, __ATOMIC_ACQ_REL); break;                                        \
      case GEX_OP_GET: was = __atomic_load_n(at, __ATOMIC_ACQUIRE); break;                                                \
      case GEX_OP_SET: __atomic_store_n(at, a, __ATOMIC_RELEASE); return 1;                                               \
      default: return 0;                                                                                                  \
    }                                                                                                                     \
    if (result_p) *result_p = was;                                                                                        \
    return 1;                                                                                                             \
  }
HAMR_GEX_AD_INLINE(I32, int32_t)
HAMR_GEX_AD_INLINE(U32, uint32_t)
HAMR_GEX_AD_INLINE(I64, int64_t)
HAMR_GEX_AD_INLINE(U64, uint64_t)
/* Of sums and differences of floating point: the bits, by a compare-exchange in a loop. */
typedef uint32_t __attribute__((__may_alias__)) hamr_gex_ad_bits32;
typedef uint64_t __attribute__((__may_alias__)) hamr_gex_ad_bits64;
#define HAMR_GEX_AD_INLINE_FLOAT(DT, T, BITS)                                                                             \
  HAMR_GEX_AD_INLINED int hamr_gex_ad_inline_##DT(gex_AD_t ad, T *result_p, gex_Rank_t rank, void *addr, gex_OP_t op, T a,\
                                            T b, gex_Flags_t flags) {                                                     \
    const gex_OP_t is_sum = op & (GEX_OP_ADD | GEX_OP_FADD), is_difference = op & (GEX_OP_SUB | GEX_OP_FSUB);             \
    BITS *const at = (BITS *)hamr_gex_ad_at(ad, GEX_DT_##DT, op, rank, addr, flags, sizeof(T));                           \
    BITS seen, bits;                                                                                                      \
    T was, is;                                                                                                            \
    (void)b;                                                                                                              \
    if (__builtin_expect(!at || (op & (op - 1)) || !(is_sum | is_difference), 0)) return 0;                               \
    seen = __atomic_load_n(at, __ATOMIC_RELAXED);                                                                         \
    do {                                                                                                                  \
      memcpy(&was, &seen, sizeof was);                                                                                    \
      is = is_sum ? was + a : was - a;                                                                                    \
      memcpy(&bits, &is, sizeof bits);                                                                                    \
    } while (!__atomic_compare_exchange_n(at, &seen, bits, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));                       \
    if ((op & (GEX_OP_FADD | GEX_OP_FSUB)) && result_p) *result_p = was;                                                  \
    return 1;                                                                                                             \
  }
HAMR_GEX_AD_INLINE_FLOAT(FLT, float, hamr_gex_ad_bits32)
HAMR_GEX_AD_INLINE_FLOAT(DBL, double, hamr_gex_ad_bits64)

#define HAMR_GEX_AD(DT, T)                                                                                                \
  void hamr_gex_ad_##DT(gex_AD_t ad, T *result_p, gex_Rank_t tgt_rank, void *tgt_addr, gex_OP_t opcode, T operand1,       \
                        T operand2, gex_Flags_t flags);                                                                   \
  static __attribute__((__noinline__, __unused__)) int hamr_gex_ad_any_##DT(                                              \
      gex_AD_t ad, T *result_p, gex_Rank_t rank, void *addr, gex_OP_t op, T a, T b, gex_Flags_t flags) {                  \
    return hamr_gex_ad_inline_##DT(ad, result_p, rank, addr, op, a, b, flags);                                            \
  }                                                                                                                       \
  HAMR_GEX_AD_INLINED int gex_AD_OpNBI_##DT(gex_AD_t ad, T *result_p, gex_Rank_t tgt_rank, void *tgt_addr,                \
                                      gex_OP_t opcode, T operand1, T operand2, gex_Flags_t flags) {                       \
    const int is_done = __builtin_constant_p(opcode)                                                                      \
      ? hamr_gex_ad_inline_##DT(ad, result_p, tgt_rank, tgt_addr, opcode, operand1, operand2, flags)                      \
      : hamr_gex_ad_any_##DT(ad, result_p, tgt_rank, tgt_addr, opcode, operand1, operand2, flags);                        \
    if (!is_done) hamr_gex_ad_##DT(ad, result_p, tgt_rank, tgt_addr, opcode, operand1, operand2, flags);                  \
    return 0;                                                                                                             \
  }                                                                                                                       \
  HAMR_GEX_AD_INLINED gex_Event_t gex_AD_OpNB_##DT(gex_AD_t ad, T *result_p, gex_Rank_t tgt_rank, void *tgt_addr,         \
                                             gex_OP_t opcode, T operand1, T operand2, gex_Flags_t flags) {                \
    gex_AD_OpNBI_##DT(ad, result_p, tgt_rank, tgt_addr, opcode, operand1, operand2, flags);                               \
    return GEX_EVENT_INVALID;                                                                                             \
  }
HAMR_GEX_AD(I32, int32_t)
HAMR_GEX_AD(U32, uint32_t)
HAMR_GEX_AD(I64, int64_t)
HAMR_GEX_AD(U64, uint64_t)
HAMR_GEX_AD(FLT, float)
HAMR_GEX_AD(DBL, double)

#ifdef __cplusplus
}
#endif

#endif
