/* Remote atomics. All segments are in coherent memory, so an operation is the processor's own, or a
 * compare-exchange in a loop (src/ratomic.rs), and complete when it returns. */
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

#define HAMR_GEX_AD(DT, T)                                                                                          \
  void hamr_gex_ad_##DT(gex_AD_t ad, T *result_p, gex_Rank_t tgt_rank, void *tgt_addr, gex_OP_t opcode, T operand1, \
                        T operand2, gex_Flags_t flags);                                                             \
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
