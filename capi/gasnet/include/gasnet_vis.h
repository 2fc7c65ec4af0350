/* Vector, indexed and strided puts and gets. The lists are read before a call returns, as is the data. */
#ifndef HAMR_GASNET_VIS_H
#define HAMR_GASNET_VIS_H

#include <gasnetex.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GEX_VIS_MAX_PEERCOMPLETION ((size_t)1024)
void gex_VIS_SetPeerCompletionHandler(gex_AM_Index_t handler, const void *source_addr, size_t nbytes,
                                      gex_Flags_t flags);
void hamr_gex_vis_vector(gex_TM_t tm, gex_Rank_t rank, int is_put, size_t dstcount, const gex_Memvec_t *dst,
                         size_t srccount, const gex_Memvec_t *src);
void hamr_gex_vis_indexed(gex_TM_t tm, gex_Rank_t rank, int is_put, size_t dstcount, void *const *dst, size_t dstlen,
                          size_t srccount, void *const *src, size_t srclen);
void hamr_gex_vis_strided(gex_TM_t tm, gex_Rank_t rank, int is_put, void *dst, const ptrdiff_t *dststrides, void *src,
                          const ptrdiff_t *srcstrides, size_t elemsz, const size_t *count, size_t levels);

#define HAMR_GEX_VIS(KIND, R, DONE)                                                                                 \
  static inline R gex_VIS_VectorGet##KIND(gex_TM_t tm, size_t dstcount, gex_Memvec_t const dstlist[],               \
                                          gex_Rank_t srcrank, size_t srccount, gex_Memvec_t const srclist[],        \
                                          gex_Flags_t flags) {                                                      \
    (void)flags;                                                                                                    \
    hamr_gex_vis_vector(tm, srcrank, 0, dstcount, dstlist, srccount, srclist);                                      \
    return DONE;                                                                                                    \
  }                                                                                                                 \
  static inline R gex_VIS_VectorPut##KIND(gex_TM_t tm, gex_Rank_t dstrank, size_t dstcount,                         \
                                          gex_Memvec_t const dstlist[], size_t srccount,                            \
                                          gex_Memvec_t const srclist[], gex_Flags_t flags) {                        \
    (void)flags;                                                                                                    \
    hamr_gex_vis_vector(tm, dstrank, 1, dstcount, dstlist, srccount, srclist);                                      \
    return DONE;                                                                                                    \
  }                                                                                                                 \
  static inline R gex_VIS_IndexedGet##KIND(gex_TM_t tm, size_t dstcount, void *const dstlist[], size_t dstlen,      \
                                           gex_Rank_t srcrank, size_t srccount, void *const srclist[],              \
                                           size_t srclen, gex_Flags_t flags) {                                      \
    (void)flags;                                                                                                    \
    hamr_gex_vis_indexed(tm, srcrank, 0, dstcount, dstlist, dstlen, srccount, srclist, srclen);                     \
    return DONE;                                                                                                    \
  }                                                                                                                 \
  static inline R gex_VIS_IndexedPut##KIND(gex_TM_t tm, gex_Rank_t dstrank, size_t dstcount, void *const dstlist[], \
                                           size_t dstlen, size_t srccount, void *const srclist[], size_t srclen,    \
                                           gex_Flags_t flags) {                                                     \
    (void)flags;                                                                                                    \
    hamr_gex_vis_indexed(tm, dstrank, 1, dstcount, dstlist, dstlen, srccount, srclist, srclen);                     \
    return DONE;                                                                                                    \
  }                                                                                                                 \
  static inline R gex_VIS_StridedGet##KIND(gex_TM_t tm, void *dstaddr, const ptrdiff_t dststrides[],                \
                                           gex_Rank_t srcrank, void *srcaddr, const ptrdiff_t srcstrides[],         \
                                           size_t elemsz, const size_t count[], size_t stridelevels,                \
                                           gex_Flags_t flags) {                                                     \
    (void)flags;                                                                                                    \
    hamr_gex_vis_strided(tm, srcrank, 0, dstaddr, dststrides, srcaddr, srcstrides, elemsz, count, stridelevels);    \
    return DONE;                                                                                                    \
  }                                                                                                                 \
  static inline R gex_VIS_StridedPut##KIND(gex_TM_t tm, gex_Rank_t dstrank, void *dstaddr,                          \
                                           const ptrdiff_t dststrides[], void *srcaddr,                             \
                                           const ptrdiff_t srcstrides[], size_t elemsz, const size_t count[],       \
                                           size_t stridelevels, gex_Flags_t flags) {                                \
    (void)flags;                                                                                                    \
    hamr_gex_vis_strided(tm, dstrank, 1, dstaddr, dststrides, srcaddr, srcstrides, elemsz, count, stridelevels);    \
    return DONE;                                                                                                    \
  }
HAMR_GEX_VIS(Blocking, int, 0)
HAMR_GEX_VIS(NBI, int, 0)
HAMR_GEX_VIS(NB, gex_Event_t, GEX_EVENT_INVALID)

#ifdef __cplusplus
}
#endif

#endif
