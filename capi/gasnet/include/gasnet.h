/* GASNet-1 on a world of hamr: its names for what gasnetex.h has. */
#ifndef _INCLUDED_GASNET_H
#define _INCLUDED_GASNET_H

#include <gasnetex.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  gasnet_handler_t index;
  gex_AM_Fn_t fnptr;
} gasnet_handlerentry_t;

int hamr_gasnet_init(int *argc, char ***argv, const char *mode);
#define gasnet_init(argc, argv) hamr_gasnet_init(argc, argv, GASNET_THREAD_MODEL_STR)
int gasnet_attach(gasnet_handlerentry_t *table, int numentries, uintptr_t segsize, uintptr_t minheapoffset);
void gasnet_QueryGexObjects(gex_Client_t *client_p, gex_EP_t *endpoint_p, gex_TM_t *tm_p, gex_Segment_t *segment_p);

/* Active messages. */

size_t gasnet_AMMaxArgs(void);
size_t gasnet_AMMaxMedium(void);
size_t gasnet_AMMaxLongRequest(void);
size_t gasnet_AMMaxLongReply(void);

#define HAMR_GASNET_AM(M)                                                                                           \
  static inline int gasnet_AMRequestShort##M(gasnet_node_t dest, gasnet_handler_t handler HAMR_GEX_P##M) {          \
    HAMR_GEX_A##M return hamr_gex_request_short(&hamr_gex_all, dest, handler, 0, M, a);                             \
  }                                                                                                                 \
  static inline int gasnet_AMRequestMedium##M(gasnet_node_t dest, gasnet_handler_t handler, void *src,              \
                                              size_t nbytes HAMR_GEX_P##M) {                                        \
    HAMR_GEX_A##M return hamr_gex_request_medium(&hamr_gex_all, dest, handler, src, nbytes, GEX_EVENT_NOW, 0, M, a); \
  }                                                                                                                 \
  static inline int gasnet_AMRequestLong##M(gasnet_node_t dest, gasnet_handler_t handler, void *src, size_t nbytes, \
                                            void *dest_addr HAMR_GEX_P##M) {                                        \
    HAMR_GEX_A##M return hamr_gex_request_long(&hamr_gex_all, dest, handler, src, nbytes, dest_addr, GEX_EVENT_NOW, \
                                               0, M, a);                                                            \
  }                                                                                                                 \
  static inline int gasnet_AMRequestLongAsync##M(gasnet_node_t dest, gasnet_handler_t handler, void *src,           \
                                                 size_t nbytes, void *dest_addr HAMR_GEX_P##M) {                    \
    HAMR_GEX_A##M return hamr_gex_request_long(&hamr_gex_all, dest, handler, src, nbytes, dest_addr, GEX_EVENT_NOW, \
                                               0, M, a);                                                            \
  }                                                                                                                 \
  static inline int gasnet_AMReplyShort##M(gasnet_token_t token, gasnet_handler_t handler HAMR_GEX_P##M) {          \
    HAMR_GEX_A##M return hamr_gex_reply_short(token, handler, 0, M, a);                                             \
  }                                                                                                                 \
  static inline int gasnet_AMReplyMedium##M(gasnet_token_t token, gasnet_handler_t handler, void *src,              \
                                            size_t nbytes HAMR_GEX_P##M) {                                          \
    HAMR_GEX_A##M return hamr_gex_reply_medium(token, handler, src, nbytes, GEX_EVENT_NOW, 0, M, a);                \
  }                                                                                                                 \
  static inline int gasnet_AMReplyLong##M(gasnet_token_t token, gasnet_handler_t handler, void *src, size_t nbytes, \
                                          void *dest_addr HAMR_GEX_P##M) {                                          \
    HAMR_GEX_A##M return hamr_gex_reply_long(token, handler, src, nbytes, dest_addr, GEX_EVENT_NOW, 0, M, a);       \
  }
HAMR_GEX_EACH(HAMR_GASNET_AM)
#define gasnet_AMRequestShort(...) HAMR_GEX_JOIN(gasnet_AMRequestShort, HAMR_GEX_BEHIND2(__VA_ARGS__))(__VA_ARGS__)
#define gasnet_AMRequestMedium(...)                                                                                 \
  HAMR_GEX_JOIN(gasnet_AMRequestMedium, HAMR_GEX_BEHIND4(__VA_ARGS__))(__VA_ARGS__)
#define gasnet_AMRequestLong(...) HAMR_GEX_JOIN(gasnet_AMRequestLong, HAMR_GEX_BEHIND5(__VA_ARGS__))(__VA_ARGS__)
#define gasnet_AMRequestLongAsync(...)                                                                              \
  HAMR_GEX_JOIN(gasnet_AMRequestLongAsync, HAMR_GEX_BEHIND5(__VA_ARGS__))(__VA_ARGS__)
#define gasnet_AMReplyShort(...) HAMR_GEX_JOIN(gasnet_AMReplyShort, HAMR_GEX_BEHIND2(__VA_ARGS__))(__VA_ARGS__)
#define gasnet_AMReplyMedium(...) HAMR_GEX_JOIN(gasnet_AMReplyMedium, HAMR_GEX_BEHIND4(__VA_ARGS__))(__VA_ARGS__)
#define gasnet_AMReplyLong(...) HAMR_GEX_JOIN(gasnet_AMReplyLong, HAMR_GEX_BEHIND5(__VA_ARGS__))(__VA_ARGS__)

/* Locks, and sections without interruptions: handlers run in calls of the library only. */

typedef gex_HSL_t gasnet_hsl_t;
#define GASNET_HSL_INITIALIZER GEX_HSL_INITIALIZER
#define gasnet_hsl_init(hsl) gex_HSL_Init(hsl)
#define gasnet_hsl_destroy(hsl) gex_HSL_Destroy(hsl)
#define gasnet_hsl_lock(hsl) gex_HSL_Lock(hsl)
#define gasnet_hsl_unlock(hsl) gex_HSL_Unlock(hsl)
#define gasnet_hsl_trylock(hsl) gex_HSL_Trylock(hsl)
#define gasnet_hold_interrupts() ((void)0)
#define gasnet_resume_interrupts() ((void)0)

/* One-sided memory. */

#define gasnet_put(node, dest, src, nbytes) ((void)gex_RMA_PutBlocking(&hamr_gex_all, node, dest, src, nbytes, 0))
#define gasnet_get(dest, node, src, nbytes) ((void)gex_RMA_GetBlocking(&hamr_gex_all, dest, node, src, nbytes, 0))
#define gasnet_put_nb(node, dest, src, nbytes) gex_RMA_PutNB(&hamr_gex_all, node, dest, src, nbytes, GEX_EVENT_NOW, 0)
#define gasnet_get_nb(dest, node, src, nbytes) gex_RMA_GetNB(&hamr_gex_all, dest, node, src, nbytes, 0)
#define gasnet_put_nbi(node, dest, src, nbytes)                                                                     \
  ((void)gex_RMA_PutNBI(&hamr_gex_all, node, dest, src, nbytes, GEX_EVENT_NOW, 0))
#define gasnet_get_nbi(dest, node, src, nbytes) ((void)gex_RMA_GetNBI(&hamr_gex_all, dest, node, src, nbytes, 0))
#define gasnet_put_bulk gasnet_put
#define gasnet_get_bulk gasnet_get
#define gasnet_put_nb_bulk gasnet_put_nb
#define gasnet_get_nb_bulk gasnet_get_nb
#define gasnet_put_nbi_bulk gasnet_put_nbi
#define gasnet_get_nbi_bulk gasnet_get_nbi

static inline void hamr_gasnet_memset(const char *function, gasnet_node_t node, void *dest, int val, size_t nbytes) {
  memset(hamr_gex_at(function, &hamr_gex_all, node, dest, nbytes), val, nbytes);
  __atomic_thread_fence(__ATOMIC_RELEASE);
}
static inline void gasnet_memset(gasnet_node_t node, void *dest, int val, size_t nbytes) {
  hamr_gasnet_memset("gasnet_memset", node, dest, val, nbytes);
}
static inline gasnet_handle_t gasnet_memset_nb(gasnet_node_t node, void *dest, int val, size_t nbytes) {
  hamr_gasnet_memset("gasnet_memset_nb", node, dest, val, nbytes);
  return GASNET_INVALID_HANDLE;
}
static inline void gasnet_memset_nbi(gasnet_node_t node, void *dest, int val, size_t nbytes) {
  hamr_gasnet_memset("gasnet_memset_nbi", node, dest, val, nbytes);
}

typedef gex_RMA_Value_t gasnet_valget_handle_t;
#define gasnet_put_val(node, dest, value, nbytes)                                                                   \
  ((void)gex_RMA_PutBlockingVal(&hamr_gex_all, node, dest, value, nbytes, 0))
#define gasnet_put_nb_val(node, dest, value, nbytes) gex_RMA_PutNBVal(&hamr_gex_all, node, dest, value, nbytes, 0)
#define gasnet_put_nbi_val(node, dest, value, nbytes)                                                               \
  ((void)gex_RMA_PutNBIVal(&hamr_gex_all, node, dest, value, nbytes, 0))
#define gasnet_get_val(node, src, nbytes) gex_RMA_GetBlockingVal(&hamr_gex_all, node, src, nbytes, 0)
#define gasnet_get_nb_val(node, src, nbytes) gasnet_get_val(node, src, nbytes)
#define gasnet_wait_syncnb_valget(handle) ((gasnet_register_value_t)(handle))

/* Waits: those that try poll first. */

static inline int hamr_gasnet_ready(int test) { return test ? GASNET_ERR_NOT_READY : GASNET_OK; }
#define gasnet_wait_syncnb(handle) gex_Event_Wait(handle)
#define gasnet_wait_syncnb_all(handles, n) gex_Event_WaitAll(handles, n, 0)
#define gasnet_wait_syncnb_some(handles, n) gex_Event_WaitSome(handles, n, 0)
#define gasnet_try_syncnb(handle) (gasnet_AMPoll(), hamr_gasnet_ready(gex_Event_Test(handle)))
#define gasnet_try_syncnb_all(handles, n) (gasnet_AMPoll(), hamr_gasnet_ready(gex_Event_TestAll(handles, n, 0)))
#define gasnet_try_syncnb_some(handles, n) (gasnet_AMPoll(), hamr_gasnet_ready(gex_Event_TestSome(handles, n, 0)))
#define gasnet_try_syncnb_nopoll(handle) hamr_gasnet_ready(gex_Event_Test(handle))
#define gasnet_wait_syncnbi_gets() gex_NBI_Wait(GEX_EC_GET, 0)
#define gasnet_wait_syncnbi_puts() gex_NBI_Wait(GEX_EC_PUT, 0)
#define gasnet_wait_syncnbi_all() gex_NBI_Wait(GEX_EC_GET | GEX_EC_PUT, 0)
#define gasnet_try_syncnbi_gets() (gasnet_AMPoll(), hamr_gasnet_ready(gex_NBI_Test(GEX_EC_GET, 0)))
#define gasnet_try_syncnbi_puts() (gasnet_AMPoll(), hamr_gasnet_ready(gex_NBI_Test(GEX_EC_PUT, 0)))
#define gasnet_try_syncnbi_all() (gasnet_AMPoll(), hamr_gasnet_ready(gex_NBI_Test(GEX_EC_GET | GEX_EC_PUT, 0)))
#define gasnet_begin_nbi_accessregion() gex_NBI_BeginAccessRegion(0)
#define gasnet_end_nbi_accessregion() gex_NBI_EndAccessRegion(0)

#ifdef __cplusplus
}
#endif

#endif
