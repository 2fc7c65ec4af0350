/* Remote atomics. All segments are in coherent memory, so an operation is the processor's own, or a
 * compare-exchange in a loop, and complete when it returns. */
#ifndef HAMR_GASNET_RATOMIC_H
#define HAMR_GASNET_RATOMIC_H

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

/* Checks the operation against the domain and finds the word here. */
void *hamr_gex_ad_at(gex_AD_t ad, gex_DT_t dt, gex_Rank_t rank, void *addr, gex_OP_t op, gex_Flags_t flags);

/* The value that an operation leaves, of the one before it. */
#define HAMR_GEX_AD_ARITHMETIC(T)                                                                                   \
  case GEX_OP_ADD: case GEX_OP_FADD: after = (T)(before + op1); break;                                              \
  case GEX_OP_SUB: case GEX_OP_FSUB: after = (T)(before - op1); break;                                              \
  case GEX_OP_MULT: case GEX_OP_FMULT: after = (T)(before * op1); break;                                            \
  case GEX_OP_MIN: case GEX_OP_FMIN: after = before < op1 ? before : op1; break;                                    \
  case GEX_OP_MAX: case GEX_OP_FMAX: after = before > op1 ? before : op1; break;                                    \
  case GEX_OP_INC: case GEX_OP_FINC: after = (T)(before + 1); break;                                                \
  case GEX_OP_DEC: case GEX_OP_FDEC: after = (T)(before - 1); break;                                                \
  case GEX_OP_SET: case GEX_OP_SWAP: after = op1; break;                                                            \
  case GEX_OP_CAS: case GEX_OP_FCAS: after = before == op1 ? op2 : before; break;
#define HAMR_GEX_AD_BITS                                                                                            \
  case GEX_OP_AND: case GEX_OP_FAND: after = before & op1; break;                                                   \
  case GEX_OP_OR: case GEX_OP_FOR: after = before | op1; break;                                                     \
  case GEX_OP_XOR: case GEX_OP_FXOR: after = before ^ op1; break;
#define HAMR_GEX_AD_NO_BITS

/* DT: the type's name; T: the type; A: the type that its arithmetic wraps in; W: the word of its size. */
#define HAMR_GEX_AD(DT, T, A, W, BITS)                                                                              \
  static inline void hamr_gex_ad_##DT(gex_AD_t ad, T *result_p, gex_Rank_t rank, void *addr, gex_OP_t op, T operand1, \
                                      T operand2, gex_Flags_t flags) {                                              \
    W *const word = (W *)hamr_gex_ad_at(ad, GEX_DT_##DT, rank, addr, op, flags);                                    \
    W seen = __atomic_load_n(word, __ATOMIC_ACQUIRE), next;                                                         \
    T was;                                                                                                          \
    do {                                                                                                            \
      const A op1 = (A)operand1, op2 = (A)operand2;                                                                 \
      A before, after;                                                                                              \
      T result;                                                                                                     \
      memcpy(&was, &seen, sizeof was);                                                                              \
      before = (A)was;                                                                                              \
      if (op == GEX_OP_GET) break;                                                                                  \
      switch (op) { HAMR_GEX_AD_ARITHMETIC(A) BITS default: after = before; }                                       \
      if (op == GEX_OP_MIN || op == GEX_OP_FMIN) result = was < operand1 ? was : operand1;                          \
      else if (op == GEX_OP_MAX || op == GEX_OP_FMAX) result = was > operand1 ? was : operand1;                     \
      else result = (T)after;                                                                                       \
      memcpy(&next, &result, sizeof next);                                                                          \
    } while (!__atomic_compare_exchange_n(word, &seen, next, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));               \
    if (op >= GEX_OP_FADD && op <= GEX_OP_GET) *result_p = was;                                                     \
  }                                                                                                                 \
  static inline gex_Event_t gex_AD_OpNB_##DT(gex_AD_t ad, T *result_p, gex_Rank_t tgt_rank, void *tgt_addr,         \
                                             gex_OP_t opcode, T operand1, T operand2, gex_Flags_t flags) {          \
    hamr_gex_ad_##DT(ad, result_p, tgt_rank, tgt_addr, opcode, operand1, operand2, flags);                          \
    return GEX_EVENT_INVALID;                                                                                       \
  }                                                                                                                 \
  static inline int gex_AD_OpNBI_##DT(gex_AD_t ad, T *result_p, gex_Rank_t tgt_rank, void *tgt_addr,                \
                                      gex_OP_t opcode, T operand1, T operand2, gex_Flags_t flags) {                 \
    hamr_gex_ad_##DT(ad, result_p, tgt_rank, tgt_addr, opcode, operand1, operand2, flags);                          \
    return 0;                                                                                                       \
  }
HAMR_GEX_AD(I32, int32_t, uint32_t, uint32_t, HAMR_GEX_AD_BITS)
HAMR_GEX_AD(U32, uint32_t, uint32_t, uint32_t, HAMR_GEX_AD_BITS)
HAMR_GEX_AD(I64, int64_t, uint64_t, uint64_t, HAMR_GEX_AD_BITS)
HAMR_GEX_AD(U64, uint64_t, uint64_t, uint64_t, HAMR_GEX_AD_BITS)
HAMR_GEX_AD(FLT, float, float, uint32_t, HAMR_GEX_AD_NO_BITS)
HAMR_GEX_AD(DBL, double, double, uint64_t, HAMR_GEX_AD_NO_BITS)

#ifdef __cplusplus
}
#endif

#endif
