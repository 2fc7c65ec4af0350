/* Collectives of GASNet-EX. Each is complete when all ranks of the team have begun it; reductions
 * join their operands in the order of the ranks, so the result has the same bits everywhere. */
#ifndef _INCLUDED_GASNET_COLL_H
#define _INCLUDED_GASNET_COLL_H

#include <gasnetex.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*gex_Coll_ReduceFn_t)(const void *arg1, void *arg2_and_out, size_t count, const void *cdata);
gex_Event_t gex_Coll_BroadcastNB(gex_TM_t tm, gex_Rank_t root, void *dst, const void *src, size_t nbytes,
                                 gex_Flags_t flags);
gex_Event_t gex_Coll_ReduceToOneNB(gex_TM_t tm, gex_Rank_t root, void *dst, const void *src, gex_DT_t dt, size_t dt_sz,
                                   size_t dt_cnt, gex_OP_t op, gex_Coll_ReduceFn_t user_op, void *user_cdata,
                                   gex_Flags_t flags);
gex_Event_t gex_Coll_ReduceToAllNB(gex_TM_t tm, void *dst, const void *src, gex_DT_t dt, size_t dt_sz, size_t dt_cnt,
                                   gex_OP_t op, gex_Coll_ReduceFn_t user_op, void *user_cdata, gex_Flags_t flags);

/* The barrier of GASNet-1, by team: that of all ranks has one. */
typedef gex_TM_t gasnet_team_handle_t;
#define GASNET_TEAM_ALL (&hamr_gex_all)
static inline void hamr_gex_coll_check(const char *function, gasnet_team_handle_t team) {
  if (team != GASNET_TEAM_ALL) gasnett_fatalerror("%s: expected GASNET_TEAM_ALL, got another team", function);
}
static inline void gasnet_coll_barrier_notify(gasnet_team_handle_t team, int id, int flags) {
  hamr_gex_coll_check("gasnet_coll_barrier_notify", team);
  gasnet_barrier_notify(id, flags);
}
static inline int gasnet_coll_barrier_wait(gasnet_team_handle_t team, int id, int flags) {
  hamr_gex_coll_check("gasnet_coll_barrier_wait", team);
  return gasnet_barrier_wait(id, flags);
}
static inline int gasnet_coll_barrier_try(gasnet_team_handle_t team, int id, int flags) {
  hamr_gex_coll_check("gasnet_coll_barrier_try", team);
  return gasnet_barrier_try(id, flags);
}
static inline int gasnet_coll_barrier(gasnet_team_handle_t team, int id, int flags) {
  hamr_gex_coll_check("gasnet_coll_barrier", team);
  return gasnet_barrier(id, flags);
}

#ifdef __cplusplus
}
#endif

#endif
