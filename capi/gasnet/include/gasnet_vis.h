/* Vector, indexed and strided puts and gets. The lists are read before a call returns, as is the data. */
#ifndef _INCLUDED_GASNET_VIS_H
#define _INCLUDED_GASNET_VIS_H

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

/* The same in GASNet-1, between ranks of the job. Its strides have the bytes of a run in front of the counts. */
#define HAMR_GASNET_VIS(KIND, R, RETURN, EX)                                                                        \
  static inline R gasnet_putv##KIND(gasnet_node_t dstnode, size_t dstcount, gasnet_memvec_t const dstlist[],        \
                                    size_t srccount, gasnet_memvec_t const srclist[]) {                             \
    RETURN gex_VIS_VectorPut##EX(&hamr_gex_all, dstnode, dstcount, (const gex_Memvec_t *)dstlist, srccount,         \
                                 (const gex_Memvec_t *)srclist, 0);                                                 \
  }                                                                                                                 \
  static inline R gasnet_getv##KIND(size_t dstcount, gasnet_memvec_t const dstlist[], gasnet_node_t srcnode,        \
                                    size_t srccount, gasnet_memvec_t const srclist[]) {                             \
    RETURN gex_VIS_VectorGet##EX(&hamr_gex_all, dstcount, (const gex_Memvec_t *)dstlist, srcnode, srccount,         \
                                 (const gex_Memvec_t *)srclist, 0);                                                 \
  }                                                                                                                 \
  static inline R gasnet_puti##KIND(gasnet_node_t dstnode, size_t dstcount, void *const dstlist[], size_t dstlen,   \
                                    size_t srccount, void *const srclist[], size_t srclen) {                        \
    RETURN gex_VIS_IndexedPut##EX(&hamr_gex_all, dstnode, dstcount, dstlist, dstlen, srccount, srclist, srclen, 0); \
  }                                                                                                                 \
  static inline R gasnet_geti##KIND(size_t dstcount, void *const dstlist[], size_t dstlen, gasnet_node_t srcnode,   \
                                    size_t srccount, void *const srclist[], size_t srclen) {                        \
    RETURN gex_VIS_IndexedGet##EX(&hamr_gex_all, dstcount, dstlist, dstlen, srcnode, srccount, srclist, srclen, 0); \
  }                                                                                                                 \
  static inline R gasnet_puts##KIND(gasnet_node_t dstnode, void *dstaddr, const size_t dststrides[], void *srcaddr, \
                                    const size_t srcstrides[], const size_t count[], size_t stridelevels) {         \
    RETURN gex_VIS_StridedPut##EX(&hamr_gex_all, dstnode, dstaddr, (const ptrdiff_t *)dststrides, srcaddr,          \
                                  (const ptrdiff_t *)srcstrides, count[0], count + 1, stridelevels, 0);             \
  }                                                                                                                 \
  static inline R gasnet_gets##KIND(void *dstaddr, const size_t dststrides[], gasnet_node_t srcnode, void *srcaddr, \
                                    const size_t srcstrides[], const size_t count[], size_t stridelevels) {         \
    RETURN gex_VIS_StridedGet##EX(&hamr_gex_all, dstaddr, (const ptrdiff_t *)dststrides, srcnode, srcaddr,          \
                                  (const ptrdiff_t *)srcstrides, count[0], count + 1, stridelevels, 0);             \
  }
HAMR_GASNET_VIS(_bulk, void, (void), Blocking)
HAMR_GASNET_VIS(_nbi_bulk, void, (void), NBI)
HAMR_GASNET_VIS(_nb_bulk, gasnet_handle_t, return, NB)

#ifdef __cplusplus
}
#endif

#endif
