/* GASNet-EX on a world of hamr (docs/gasnet-c.md). A rank is a process; segments of all ranks are
 * mapped in each, so that puts and gets are copies, which are inlined. */
#ifndef _INCLUDED_GASNETEX_H
#define _INCLUDED_GASNETEX_H

#include <gasnet_fwd.h>
#include <string.h>

#if !defined(GASNET_SEQ) && !defined(GASNET_PARSYNC) && !defined(GASNET_PAR)
#error "define GASNET_SEQ, GASNET_PARSYNC or GASNET_PAR before gasnetex.h"
#endif
#if defined(GASNET_SEQ) + defined(GASNET_PARSYNC) + defined(GASNET_PAR) > 1
#error "define only one of GASNET_SEQ, GASNET_PARSYNC and GASNET_PAR"
#endif

#include <gasnet_tools.h>

GASNETT_BEGIN_EXTERNC

#define GASNET_RELEASE_VERSION_MAJOR GASNETT_RELEASE_VERSION_MAJOR
#define GASNET_RELEASE_VERSION_MINOR GASNETT_RELEASE_VERSION_MINOR
#define GASNET_RELEASE_VERSION_PATCH GASNETT_RELEASE_VERSION_PATCH
#define GEX_SPEC_VERSION_MAJOR 0
#define GEX_SPEC_VERSION_MINOR 19
#define GASNET_SPEC_VERSION_MAJOR 1
#define GASNET_SPEC_VERSION_MINOR 8
#define GASNET_VERSION GASNET_SPEC_VERSION_MAJOR

#define GASNET_CONDUIT_HAMR 1
/* Programs choose by names that they know. This one says: all ranks share memory. */
#define GASNET_CONDUIT_SMP 1
#define GASNET_HAMR_CONDUIT 1
#define GASNET_NDEBUG 1
#define GASNET_CONDUIT_NAME HAMR
#define GASNET_CONDUIT_NAME_STR "HAMR"
#define GASNET_CORE_NAME HAMR
#define GASNET_CORE_NAME_STR "HAMR"
#define GASNET_CORE_VERSION 1.0
#define GASNET_CORE_VERSION_STR "1.0"
#define GASNET_EXTENDED_NAME HAMR
#define GASNET_EXTENDED_NAME_STR "HAMR"
#define GASNET_EXTENDED_VERSION 1.0
#define GASNET_EXTENDED_VERSION_STR "1.0"
#if defined(GASNET_SEQ)
#define GASNET_THREAD_MODEL SEQ
#define GASNET_THREAD_MODEL_STR "SEQ"
#elif defined(GASNET_PARSYNC)
#define GASNET_THREAD_MODEL PARSYNC
#define GASNET_THREAD_MODEL_STR "PARSYNC"
#else
#define GASNET_THREAD_MODEL PAR
#define GASNET_THREAD_MODEL_STR "PAR"
#endif
#define GASNET_SEGMENT_FAST 1
#define GASNET_SEGMENT_CONFIG_STR "FAST"
#define GASNET_CONFIG_STRING "HAMR," GASNET_THREAD_MODEL_STR "," GASNET_SEGMENT_CONFIG_STR ",PSHM"
#define GASNET_PSHM 1
#define GASNET_ALIGNED_SEGMENTS 0
#define GASNET_PAGESIZE GASNETT_PAGESIZE
#define GASNET_MAXNODES 64
#define GASNET_MAXEPS 1
#define GASNET_HIDDEN_AM_CONCURRENCY_LEVEL 0
#define GEX_AM_INDEX_BASE 128

#define GASNET_SUPPORTS_AM_COMMIT_V2 20240906L
#define GASNET_SUPPORTS_AM_CANCEL 1
/* What gex_Token_Info always says. The buffer of a prepared message is copied, so no GASNET_NATIVE_NP_ALLOC_…. */
#define GASNET_SUPPORTS_TI_SRCRANK 1
#define GASNET_SUPPORTS_TI_EP 1
#define GASNET_SUPPORTS_TI_ENTRY 1
#define GASNET_SUPPORTS_TI_IS_REQ 1
#define GASNET_SUPPORTS_TI_IS_LONG 1

#define GASNET_OK 0
#define GASNET_ERR_NOT_INIT 10001
#define GASNET_ERR_RESOURCE 10002
#define GASNET_ERR_BAD_ARG 10003
#define GASNET_ERR_NOT_READY 10004
#define GASNET_ERR_BARRIER_MISMATCH 10005
char *gasnet_ErrorName(int errval);
char *gasnet_ErrorDesc(int errval);

typedef struct hamr_gex_client *gex_Client_t;
typedef struct hamr_gex_segment *gex_Segment_t;
typedef struct hamr_gex_ep *gex_EP_t;
typedef struct hamr_gex_tm *gex_TM_t;
typedef struct hamr_gex_token *gex_Token_t;
typedef struct hamr_gex_prepared *gex_AM_SrcDesc_t;
typedef struct hamr_gex_mk *gex_MK_t;
#define GEX_CLIENT_INVALID ((gex_Client_t)0)
#define GEX_SEGMENT_INVALID ((gex_Segment_t)0)
#define GEX_EP_INVALID ((gex_EP_t)0)
#define GEX_TM_INVALID ((gex_TM_t)0)
#define GEX_AM_SRCDESC_NO_OP ((gex_AM_SrcDesc_t)0)
#define GEX_MK_INVALID ((gex_MK_t)0)
#define GEX_MK_HOST ((gex_MK_t)(uintptr_t)1)

/* A function of any type; programs write this one out. */
typedef void (*gex_AM_Fn_t)();

typedef struct {
  void *gex_addr;
  size_t gex_len;
} gex_Memvec_t;

typedef struct {
  gex_Rank_t gex_rank;
  gex_EP_Index_t gex_ep_index;
} gex_EP_Location_t;

#include <hamr_gasnet_block.h>

/* Client, endpoints, segments. */

int hamr_gex_client_init(gex_Client_t *client_p, gex_EP_t *ep_p, gex_TM_t *tm_p, const char *clientName, int *argc,
                         char ***argv, gex_Flags_t flags, const char *mode);
#define gex_Client_Init(client_p, ep_p, tm_p, clientName, argc, argv, flags)                                        \
  hamr_gex_client_init(client_p, ep_p, tm_p, clientName, argc, argv, flags, GASNET_THREAD_MODEL_STR)
gex_Flags_t gex_Client_QueryFlags(gex_Client_t client);
const char *gex_Client_QueryName(gex_Client_t client);
void gex_Client_SetCData(gex_Client_t client, const void *val);
void *gex_Client_QueryCData(gex_Client_t client);

int gex_Segment_Attach(gex_Segment_t *segment_p, gex_TM_t tm, uintptr_t size);
gex_Client_t gex_Segment_QueryClient(gex_Segment_t seg);
gex_Flags_t gex_Segment_QueryFlags(gex_Segment_t seg);
void *gex_Segment_QueryAddr(gex_Segment_t seg);
uintptr_t gex_Segment_QuerySize(gex_Segment_t seg);
void gex_Segment_SetCData(gex_Segment_t seg, const void *val);
void *gex_Segment_QueryCData(gex_Segment_t seg);
int gex_Segment_QueryBound(gex_TM_t tm, gex_Rank_t rank, void **owneraddr_p, void **localaddr_p, uintptr_t *size_p);
int gex_Segment_Create(gex_Segment_t *segment_p, gex_Client_t client, gex_Addr_t address, uintptr_t length,
                       gex_MK_t kind, gex_Flags_t flags);
void gex_Segment_Destroy(gex_Segment_t segment, gex_Flags_t flags);

gex_Client_t gex_EP_QueryClient(gex_EP_t ep);
gex_Flags_t gex_EP_QueryFlags(gex_EP_t ep);
gex_Segment_t gex_EP_QuerySegment(gex_EP_t ep);
gex_EP_Index_t gex_EP_QueryIndex(gex_EP_t ep);
gex_EP_Capabilities_t gex_EP_QueryCapabilities(gex_EP_t ep);
void gex_EP_SetCData(gex_EP_t ep, const void *val);
void *gex_EP_QueryCData(gex_EP_t ep);
int gex_EP_Create(gex_EP_t *ep_p, gex_Client_t client, gex_EP_Capabilities_t capabilities, gex_Flags_t flags);
void gex_EP_Destroy(gex_EP_t ep, gex_Flags_t flags);
int gex_EP_BindSegment(gex_EP_t ep, gex_Segment_t segment, gex_Flags_t flags);
int gex_EP_PublishBoundSegment(gex_TM_t tm, gex_EP_t *eps, size_t num_eps, gex_Flags_t flags);
gex_Event_t gex_EP_QueryBoundSegmentNB(gex_TM_t tm, gex_Rank_t rank, void **owneraddr_p, void **localaddr_p,
                                       uintptr_t *size_p, gex_Flags_t flags);

typedef struct {
  gex_AM_Index_t gex_index;
  gex_AM_Fn_t gex_fnptr;
  gex_Flags_t gex_flags;
  unsigned int gex_nargs;
  const void *gex_cdata;
  const char *gex_name;
} gex_AM_Entry_t;
int gex_EP_RegisterHandlers(gex_EP_t ep, gex_AM_Entry_t *table, size_t numentries);

/* Teams. */

gex_Client_t gex_TM_QueryClient(gex_TM_t tm);
gex_EP_t gex_TM_QueryEP(gex_TM_t tm);
gex_Flags_t gex_TM_QueryFlags(gex_TM_t tm);
static inline gex_Rank_t gex_TM_QueryRank(gex_TM_t tm) { return hamr_gex_team("gex_TM_QueryRank", tm)->rank; }
static inline gex_Rank_t gex_TM_QuerySize(gex_TM_t tm) { return hamr_gex_team("gex_TM_QuerySize", tm)->size; }
void gex_TM_SetCData(gex_TM_t tm, const void *val);
void *gex_TM_QueryCData(gex_TM_t tm);
size_t gex_TM_Split(gex_TM_t *new_tm_p, gex_TM_t parent_tm, int color, int key, void *scratch_addr,
                    size_t scratch_size, gex_Flags_t flags);
size_t gex_TM_Create(gex_TM_t *new_tms, size_t num_new_tms, gex_TM_t parent_tm, gex_EP_Location_t *args,
                     size_t numargs, gex_Addr_t *scratch_addrs, size_t scratch_size, gex_Flags_t flags);
int gex_TM_Destroy(gex_TM_t tm, gex_Memvec_t *scratch_p, gex_Flags_t flags);
gex_TM_t gex_TM_Pair(gex_EP_t local_ep, gex_EP_Index_t remote_ep_index);
gex_Rank_t gex_TM_TranslateRankToJobrank(gex_TM_t tm, gex_Rank_t rank);
gex_Rank_t gex_TM_TranslateJobrankToRank(gex_TM_t tm, gex_Rank_t jobrank);
gex_EP_Location_t gex_TM_TranslateRankToEP(gex_TM_t tm, gex_Rank_t rank, gex_Flags_t flags);

/* The job. */

static inline gex_Rank_t gex_System_QueryJobRank(void) { return hamr_gex_all.rank; }
static inline gex_Rank_t gex_System_QueryJobSize(void) { return hamr_gex_all.size; }
int gex_System_GetVerboseErrors(void);
void gex_System_SetVerboseErrors(int enable);
uint64_t gex_System_QueryMaxThreads(void);
int gex_System_QueryHiddenAMConcurrencyLevel(void);
typedef const struct {
  gex_Rank_t gex_jobrank;
} gex_RankInfo_t;
void gex_System_QueryNbrhdInfo(gex_RankInfo_t **info_p, gex_Rank_t *info_count_p, gex_Rank_t *my_info_index_p);
void gex_System_QueryHostInfo(gex_RankInfo_t **info_p, gex_Rank_t *info_count_p, gex_Rank_t *my_info_index_p);
void gex_System_QueryMyPosition(gex_Rank_t *nbrhd_set_size, gex_Rank_t *nbrhd_set_rank, gex_Rank_t *host_set_size,
                                gex_Rank_t *host_set_rank);
typedef struct {
  const char *gex_device_list;
  unsigned int gex_thread_roles;
  void *(*gex_progress_fn)(void *);
  void *gex_progress_arg;
} gex_ProgressThreadInfo_t;
#define GEX_THREAD_ROLE_RCV 1u
#define GEX_THREAD_ROLE_SND 2u
int gex_System_QueryProgressThreads(gex_Client_t client, unsigned int *count_p,
                                    const gex_ProgressThreadInfo_t **info_p, gex_Flags_t flags);

/* What GASNet-EX keeps of GASNet-1. */

typedef gex_Rank_t gasnet_node_t;
typedef gex_AM_Index_t gasnet_handler_t;
typedef gex_AM_Arg_t gasnet_handlerarg_t;
typedef gex_Token_t gasnet_token_t;
typedef gex_Event_t gasnet_handle_t;
typedef gex_RMA_Value_t gasnet_register_value_t;
#define SIZEOF_GASNET_REGISTER_VALUE_T SIZEOF_GEX_RMA_VALUE_T
#define GASNET_INVALID_HANDLE GEX_EVENT_INVALID
typedef struct {
  void *addr;
  uintptr_t size;
} gasnet_seginfo_t;
typedef struct {
  void *addr;
  size_t len;
} gasnet_memvec_t;
/* Ranks of one host and of one supernode have the same number. An address in a rank's segment there is at that address
 * and the offset here. */
typedef struct {
  gasnet_node_t host;
  gasnet_node_t supernode;
  intptr_t offset;
} gasnet_nodeinfo_t;
int gasnet_getSegmentInfo(gasnet_seginfo_t *seginfo_table, int numentries);
int gasnet_getNodeInfo(gasnet_nodeinfo_t *nodeinfo_table, int numentries);
int gasnet_AMGetMsgSource(gasnet_token_t token, gasnet_node_t *srcindex);

/* Threads have nothing of the library's own. */
typedef void *gasnet_threadinfo_t;
#define GASNET_GET_THREADINFO() ((gasnet_threadinfo_t)0)
#define GASNET_POST_THREADINFO(info) ((void)(info))
#define GASNET_BEGIN_FUNCTION() ((void)0)

#define GASNET_BARRIERFLAG_ANONYMOUS 1
#define GASNET_BARRIERFLAG_MISMATCH 2
#define GASNET_BARRIERFLAG_UNNAMED 5
void gasnet_barrier_notify(int id, int flags);
int gasnet_barrier_wait(int id, int flags);
int gasnet_barrier_try(int id, int flags);
int gasnet_barrier(int id, int flags);
int gasnet_barrier_result(int *id);

static inline gasnet_node_t gasnet_mynode(void) { return hamr_gex_all.rank; }
#define gasneti_mynode gasnet_mynode() /* a name of GASNet's own, which programs print */
static inline gasnet_node_t gasnet_nodes(void) { return hamr_gex_all.size; }
uintptr_t gasnet_getMaxLocalSegmentSize(void);
uintptr_t gasnet_getMaxGlobalSegmentSize(void);
char *gasnet_getenv(const char *name);
void gasnet_exit(int exitcode) __attribute__((noreturn));
int gasnet_set_waitmode(int wait_mode);
#define GASNET_WAIT_SPIN 0
#define GASNET_WAIT_BLOCK 1
#define GASNET_WAIT_SPINBLOCK 2

/* Active messages. */

typedef struct {
  gex_Rank_t gex_srcrank;
  gex_EP_t gex_ep;
  const gex_AM_Entry_t *gex_entry;
  uint8_t gex_is_req;
  uint8_t gex_is_long;
} gex_Token_Info_t;
gex_TI_t gex_Token_Info(gex_Token_t token, gex_Token_Info_t *info, gex_TI_t mask);

unsigned int gex_AM_MaxArgs(void);
size_t gex_AM_MaxRequestLong(gex_TM_t tm, gex_Rank_t other_rank, const gex_Event_t *lc_opt, gex_Flags_t flags,
                             unsigned int numargs);
size_t gex_AM_MaxReplyLong(gex_TM_t tm, gex_Rank_t other_rank, const gex_Event_t *lc_opt, gex_Flags_t flags,
                           unsigned int numargs);
size_t gex_AM_MaxRequestMedium(gex_TM_t tm, gex_Rank_t other_rank, const gex_Event_t *lc_opt, gex_Flags_t flags,
                               unsigned int numargs);
size_t gex_AM_MaxReplyMedium(gex_TM_t tm, gex_Rank_t other_rank, const gex_Event_t *lc_opt, gex_Flags_t flags,
                             unsigned int numargs);
size_t gex_Token_MaxReplyLong(gex_Token_t token, const gex_Event_t *lc_opt, gex_Flags_t flags, unsigned int numargs);
size_t gex_Token_MaxReplyMedium(gex_Token_t token, const gex_Event_t *lc_opt, gex_Flags_t flags,
                                unsigned int numargs);
size_t gex_AM_LUBRequestLong(void);
size_t gex_AM_LUBReplyLong(void);
size_t gex_AM_LUBRequestMedium(void);
size_t gex_AM_LUBReplyMedium(void);

int gasnet_AMPoll(void);
#define gex_AM_Poll() gasnet_AMPoll()
void hamr_gex_poll_idle(void);
#define GASNET_BLOCKUNTIL(cond)                                                                                     \
  do {                                                                                                              \
    while (!(cond)) hamr_gex_poll_idle();                                                                           \
    gasnett_local_rmb();                                                                                            \
  } while (0)

/* All numbers of arguments come down to these. */
int hamr_gex_request_short(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, gex_Flags_t flags, unsigned nargs,
                           const gex_AM_Arg_t *args);
int hamr_gex_request_medium(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, const void *source, size_t nbytes,
                            gex_Event_t *lc_opt, gex_Flags_t flags, unsigned nargs, const gex_AM_Arg_t *args);
int hamr_gex_request_long(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, const void *source, size_t nbytes,
                          void *dest, gex_Event_t *lc_opt, gex_Flags_t flags, unsigned nargs,
                          const gex_AM_Arg_t *args);
int hamr_gex_reply_short(gex_Token_t token, gex_AM_Index_t handler, gex_Flags_t flags, unsigned nargs,
                         const gex_AM_Arg_t *args);
int hamr_gex_reply_medium(gex_Token_t token, gex_AM_Index_t handler, const void *source, size_t nbytes,
                          gex_Event_t *lc_opt, gex_Flags_t flags, unsigned nargs, const gex_AM_Arg_t *args);
int hamr_gex_reply_long(gex_Token_t token, gex_AM_Index_t handler, const void *source, size_t nbytes, void *dest,
                        gex_Event_t *lc_opt, gex_Flags_t flags, unsigned nargs, const gex_AM_Arg_t *args);
int hamr_gex_commit_request_medium(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler, size_t nbytes, gex_Flags_t commit_flags,
                                   unsigned nargs, const gex_AM_Arg_t *args);
int hamr_gex_commit_request_long(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler, size_t nbytes, void *dest,
                                 gex_Flags_t commit_flags, unsigned nargs, const gex_AM_Arg_t *args);
int hamr_gex_commit_reply_medium(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler, size_t nbytes, gex_Flags_t commit_flags,
                                 unsigned nargs, const gex_AM_Arg_t *args);
int hamr_gex_commit_reply_long(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler, size_t nbytes, void *dest,
                               gex_Flags_t commit_flags, unsigned nargs, const gex_AM_Arg_t *args);

gex_AM_SrcDesc_t gex_AM_PrepareRequestMedium(gex_TM_t tm, gex_Rank_t rank, const void *client_buf,
                                             size_t least_payload, size_t most_payload, gex_Event_t *lc_opt,
                                             gex_Flags_t flags, unsigned int numargs);
gex_AM_SrcDesc_t gex_AM_PrepareReplyMedium(gex_Token_t token, const void *client_buf, size_t least_payload,
                                           size_t most_payload, gex_Event_t *lc_opt, gex_Flags_t flags,
                                           unsigned int numargs);
gex_AM_SrcDesc_t gex_AM_PrepareRequestLong(gex_TM_t tm, gex_Rank_t rank, const void *client_buf,
                                           size_t least_payload, size_t most_payload, void *dest_addr,
                                           gex_Event_t *lc_opt, gex_Flags_t flags, unsigned int numargs);
gex_AM_SrcDesc_t gex_AM_PrepareReplyLong(gex_Token_t token, const void *client_buf, size_t least_payload,
                                         size_t most_payload, void *dest_addr, gex_Event_t *lc_opt,
                                         gex_Flags_t flags, unsigned int numargs);
int gex_AM_CancelRequestMedium(gex_AM_SrcDesc_t sd, gex_Flags_t flags);
int gex_AM_CancelRequestLong(gex_AM_SrcDesc_t sd, gex_Flags_t flags);
int gex_AM_CancelReplyMedium(gex_AM_SrcDesc_t sd, gex_Flags_t flags);
int gex_AM_CancelReplyLong(gex_AM_SrcDesc_t sd, gex_Flags_t flags);
void *gex_AM_SrcDescAddr(gex_AM_SrcDesc_t sd);
size_t gex_AM_SrcDescSize(gex_AM_SrcDesc_t sd);

/* Parameters and the array of M arguments. */
#define HAMR_GEX_P0
#define HAMR_GEX_P1 , gex_AM_Arg_t a0
#define HAMR_GEX_P2 HAMR_GEX_P1, gex_AM_Arg_t a1
#define HAMR_GEX_P3 HAMR_GEX_P2, gex_AM_Arg_t a2
#define HAMR_GEX_P4 HAMR_GEX_P3, gex_AM_Arg_t a3
#define HAMR_GEX_P5 HAMR_GEX_P4, gex_AM_Arg_t a4
#define HAMR_GEX_P6 HAMR_GEX_P5, gex_AM_Arg_t a5
#define HAMR_GEX_P7 HAMR_GEX_P6, gex_AM_Arg_t a6
#define HAMR_GEX_P8 HAMR_GEX_P7, gex_AM_Arg_t a7
#define HAMR_GEX_P9 HAMR_GEX_P8, gex_AM_Arg_t a8
#define HAMR_GEX_P10 HAMR_GEX_P9, gex_AM_Arg_t a9
#define HAMR_GEX_P11 HAMR_GEX_P10, gex_AM_Arg_t a10
#define HAMR_GEX_P12 HAMR_GEX_P11, gex_AM_Arg_t a11
#define HAMR_GEX_P13 HAMR_GEX_P12, gex_AM_Arg_t a12
#define HAMR_GEX_P14 HAMR_GEX_P13, gex_AM_Arg_t a13
#define HAMR_GEX_P15 HAMR_GEX_P14, gex_AM_Arg_t a14
#define HAMR_GEX_P16 HAMR_GEX_P15, gex_AM_Arg_t a15
#define HAMR_GEX_V1 a0
#define HAMR_GEX_V2 HAMR_GEX_V1, a1
#define HAMR_GEX_V3 HAMR_GEX_V2, a2
#define HAMR_GEX_V4 HAMR_GEX_V3, a3
#define HAMR_GEX_V5 HAMR_GEX_V4, a4
#define HAMR_GEX_V6 HAMR_GEX_V5, a5
#define HAMR_GEX_V7 HAMR_GEX_V6, a6
#define HAMR_GEX_V8 HAMR_GEX_V7, a7
#define HAMR_GEX_V9 HAMR_GEX_V8, a8
#define HAMR_GEX_V10 HAMR_GEX_V9, a9
#define HAMR_GEX_V11 HAMR_GEX_V10, a10
#define HAMR_GEX_V12 HAMR_GEX_V11, a11
#define HAMR_GEX_V13 HAMR_GEX_V12, a12
#define HAMR_GEX_V14 HAMR_GEX_V13, a13
#define HAMR_GEX_V15 HAMR_GEX_V14, a14
#define HAMR_GEX_V16 HAMR_GEX_V15, a15
#define HAMR_GEX_A0 const gex_AM_Arg_t *const a = 0;
#define HAMR_GEX_A(M) const gex_AM_Arg_t a[M] = {HAMR_GEX_V##M};
#define HAMR_GEX_A1 HAMR_GEX_A(1)
#define HAMR_GEX_A2 HAMR_GEX_A(2)
#define HAMR_GEX_A3 HAMR_GEX_A(3)
#define HAMR_GEX_A4 HAMR_GEX_A(4)
#define HAMR_GEX_A5 HAMR_GEX_A(5)
#define HAMR_GEX_A6 HAMR_GEX_A(6)
#define HAMR_GEX_A7 HAMR_GEX_A(7)
#define HAMR_GEX_A8 HAMR_GEX_A(8)
#define HAMR_GEX_A9 HAMR_GEX_A(9)
#define HAMR_GEX_A10 HAMR_GEX_A(10)
#define HAMR_GEX_A11 HAMR_GEX_A(11)
#define HAMR_GEX_A12 HAMR_GEX_A(12)
#define HAMR_GEX_A13 HAMR_GEX_A(13)
#define HAMR_GEX_A14 HAMR_GEX_A(14)
#define HAMR_GEX_A15 HAMR_GEX_A(15)
#define HAMR_GEX_A16 HAMR_GEX_A(16)
#define HAMR_GEX_EACH(F)                                                                                            \
  F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15) F(16)

/* Inline functions and no macros: an argument may be a macro that expands to several. */
#define HAMR_GEX_AM(M)                                                                                              \
  static inline int gex_AM_RequestShort##M(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler,                    \
                                           gex_Flags_t flags HAMR_GEX_P##M) {                                       \
    HAMR_GEX_A##M return hamr_gex_request_short(tm, rank, handler, flags, M, a);                                    \
  }                                                                                                                 \
  static inline int gex_AM_RequestMedium##M(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, const void *src,  \
                                            size_t nbytes, gex_Event_t *lc_opt, gex_Flags_t flags HAMR_GEX_P##M) {  \
    HAMR_GEX_A##M return hamr_gex_request_medium(tm, rank, handler, src, nbytes, lc_opt, flags, M, a);              \
  }                                                                                                                 \
  static inline int gex_AM_RequestLong##M(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, const void *src,    \
                                          size_t nbytes, void *dest, gex_Event_t *lc_opt,                           \
                                          gex_Flags_t flags HAMR_GEX_P##M) {                                        \
    HAMR_GEX_A##M return hamr_gex_request_long(tm, rank, handler, src, nbytes, dest, lc_opt, flags, M, a);          \
  }                                                                                                                 \
  static inline int gex_AM_ReplyShort##M(gex_Token_t token, gex_AM_Index_t handler,                                 \
                                         gex_Flags_t flags HAMR_GEX_P##M) {                                         \
    HAMR_GEX_A##M return hamr_gex_reply_short(token, handler, flags, M, a);                                         \
  }                                                                                                                 \
  static inline int gex_AM_ReplyMedium##M(gex_Token_t token, gex_AM_Index_t handler, const void *src,               \
                                          size_t nbytes, gex_Event_t *lc_opt, gex_Flags_t flags HAMR_GEX_P##M) {    \
    HAMR_GEX_A##M return hamr_gex_reply_medium(token, handler, src, nbytes, lc_opt, flags, M, a);                   \
  }                                                                                                                 \
  static inline int gex_AM_ReplyLong##M(gex_Token_t token, gex_AM_Index_t handler, const void *src, size_t nbytes,  \
                                        void *dest, gex_Event_t *lc_opt, gex_Flags_t flags HAMR_GEX_P##M) {         \
    HAMR_GEX_A##M return hamr_gex_reply_long(token, handler, src, nbytes, dest, lc_opt, flags, M, a);               \
  }                                                                                                                 \
  static inline int gex_AM_CommitRequestMedium##M##_v2(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler, size_t nbytes,  \
      gex_Flags_t commit_flags HAMR_GEX_P##M) {                                                                     \
    HAMR_GEX_A##M return hamr_gex_commit_request_medium(sd, handler, nbytes, commit_flags, M, a);                   \
  }                                                                                                                 \
  static inline void gex_AM_CommitRequestMedium##M(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler,                     \
      size_t nbytes HAMR_GEX_P##M) {                                                                                \
    HAMR_GEX_A##M hamr_gex_commit_request_medium(sd, handler, nbytes, 0, M, a);                                     \
  }                                                                                                                 \
  static inline int gex_AM_CommitRequestLong##M##_v2(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler, size_t nbytes, void *dest,\
      gex_Flags_t commit_flags HAMR_GEX_P##M) {                                                                     \
    HAMR_GEX_A##M return hamr_gex_commit_request_long(sd, handler, nbytes, dest, commit_flags, M, a);               \
  }                                                                                                                 \
  static inline void gex_AM_CommitRequestLong##M(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler,                       \
      size_t nbytes, void *dest HAMR_GEX_P##M) {                                                                    \
    HAMR_GEX_A##M hamr_gex_commit_request_long(sd, handler, nbytes, dest, 0, M, a);                                 \
  }                                                                                                                 \
  static inline int gex_AM_CommitReplyMedium##M##_v2(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler, size_t nbytes,    \
      gex_Flags_t commit_flags HAMR_GEX_P##M) {                                                                     \
    HAMR_GEX_A##M return hamr_gex_commit_reply_medium(sd, handler, nbytes, commit_flags, M, a);                     \
  }                                                                                                                 \
  static inline void gex_AM_CommitReplyMedium##M(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler,                       \
      size_t nbytes HAMR_GEX_P##M) {                                                                                \
    HAMR_GEX_A##M hamr_gex_commit_reply_medium(sd, handler, nbytes, 0, M, a);                                       \
  }                                                                                                                 \
  static inline int gex_AM_CommitReplyLong##M##_v2(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler, size_t nbytes, void *dest,\
      gex_Flags_t commit_flags HAMR_GEX_P##M) {                                                                     \
    HAMR_GEX_A##M return hamr_gex_commit_reply_long(sd, handler, nbytes, dest, commit_flags, M, a);                 \
  }                                                                                                                 \
  static inline void gex_AM_CommitReplyLong##M(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler,                         \
      size_t nbytes, void *dest HAMR_GEX_P##M) {                                                                    \
    HAMR_GEX_A##M hamr_gex_commit_reply_long(sd, handler, nbytes, dest, 0, M, a);                                   \
  }
HAMR_GEX_EACH(HAMR_GEX_AM)

/* The forms without a number: F parameters come before the arguments. */
#define HAMR_GEX_AT25(p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15, p16, p17, p18, p19, p20, \
                      p21, p22, p23, p24, N, ...)                                                                   \
  N
#define HAMR_GEX_DOWN 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, none, none, none, none, none
#define HAMR_GEX_AT(...) HAMR_GEX_AT25(__VA_ARGS__)
#define HAMR_GEX_BEHIND2(...) HAMR_GEX_AT(_, _, _, _, _, _, _, __VA_ARGS__, HAMR_GEX_DOWN)
#define HAMR_GEX_BEHIND3(...) HAMR_GEX_AT(_, _, _, _, _, _, __VA_ARGS__, HAMR_GEX_DOWN)
#define HAMR_GEX_BEHIND4(...) HAMR_GEX_AT(_, _, _, _, _, __VA_ARGS__, HAMR_GEX_DOWN)
#define HAMR_GEX_BEHIND5(...) HAMR_GEX_AT(_, _, _, _, __VA_ARGS__, HAMR_GEX_DOWN)
#define HAMR_GEX_BEHIND6(...) HAMR_GEX_AT(_, _, _, __VA_ARGS__, HAMR_GEX_DOWN)
#define HAMR_GEX_BEHIND7(...) HAMR_GEX_AT(_, _, __VA_ARGS__, HAMR_GEX_DOWN)
#define HAMR_GEX_BEHIND8(...) HAMR_GEX_AT(_, __VA_ARGS__, HAMR_GEX_DOWN)
#define HAMR_GEX_JOIN2(name, M) name##M
#define HAMR_GEX_JOIN(name, M) HAMR_GEX_JOIN2(name, M)
#define gex_AM_RequestShort(...) HAMR_GEX_JOIN(gex_AM_RequestShort, HAMR_GEX_BEHIND4(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_RequestMedium(...) HAMR_GEX_JOIN(gex_AM_RequestMedium, HAMR_GEX_BEHIND7(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_RequestLong(...) HAMR_GEX_JOIN(gex_AM_RequestLong, HAMR_GEX_BEHIND8(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_ReplyShort(...) HAMR_GEX_JOIN(gex_AM_ReplyShort, HAMR_GEX_BEHIND3(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_ReplyMedium(...) HAMR_GEX_JOIN(gex_AM_ReplyMedium, HAMR_GEX_BEHIND6(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_ReplyLong(...) HAMR_GEX_JOIN(gex_AM_ReplyLong, HAMR_GEX_BEHIND7(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_CommitRequestMedium(...)                                                                             \
  HAMR_GEX_JOIN(gex_AM_CommitRequestMedium, HAMR_GEX_BEHIND3(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_CommitRequestLong(...)                                                                               \
  HAMR_GEX_JOIN(gex_AM_CommitRequestLong, HAMR_GEX_BEHIND4(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_CommitReplyMedium(...)                                                                               \
  HAMR_GEX_JOIN(gex_AM_CommitReplyMedium, HAMR_GEX_BEHIND3(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_CommitReplyLong(...)                                                                                 \
  HAMR_GEX_JOIN(gex_AM_CommitReplyLong, HAMR_GEX_BEHIND4(__VA_ARGS__))(__VA_ARGS__)
/* With flags of the commit: 1 only where it is GEX_FLAG_IMMEDIATE and would have waited, and then nothing has happened. */
#define HAMR_GEX_JOIN_V2(name, M) HAMR_GEX_JOIN(HAMR_GEX_JOIN(name, M), _v2)
#define gex_AM_CommitRequestMedium_v2(...)                                                                          \
  HAMR_GEX_JOIN_V2(gex_AM_CommitRequestMedium, HAMR_GEX_BEHIND4(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_CommitRequestLong_v2(...)                                                                            \
  HAMR_GEX_JOIN_V2(gex_AM_CommitRequestLong, HAMR_GEX_BEHIND5(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_CommitReplyMedium_v2(...)                                                                            \
  HAMR_GEX_JOIN_V2(gex_AM_CommitReplyMedium, HAMR_GEX_BEHIND4(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_CommitReplyLong_v2(...)                                                                              \
  HAMR_GEX_JOIN_V2(gex_AM_CommitReplyLong, HAMR_GEX_BEHIND5(__VA_ARGS__))(__VA_ARGS__)

/* Events. Puts and gets are complete when they return, so only collectives have some; what has happened is asked for and
 * awaited without a call. */

int hamr_gex_event_test(gex_Event_t event);
void hamr_gex_event_wait(gex_Event_t event);
int hamr_gex_nbi_test(void);
static inline int gex_Event_Test(gex_Event_t event) {
  return event == GEX_EVENT_INVALID && !HAMR_GEX_MAY_BE_RESTRICTED() ? 0 : hamr_gex_event_test(event);
}
static inline void gex_Event_Wait(gex_Event_t event) {
  if (event != GEX_EVENT_INVALID || HAMR_GEX_MAY_BE_RESTRICTED()) hamr_gex_event_wait(event);
}
int gex_Event_TestSome(gex_Event_t *pevent, size_t numevents, gex_Flags_t flags);
void gex_Event_WaitSome(gex_Event_t *pevent, size_t numevents, gex_Flags_t flags);
int gex_Event_TestAll(gex_Event_t *pevent, size_t numevents, gex_Flags_t flags);
void gex_Event_WaitAll(gex_Event_t *pevent, size_t numevents, gex_Flags_t flags);
gex_Event_t gex_Event_QueryLeaf(gex_Event_t root, gex_EC_t event_category);
static inline int gex_NBI_Test(gex_EC_t event_mask, gex_Flags_t flags) {
  (void)event_mask, (void)flags;
  return HAMR_GEX_MAY_BE_RESTRICTED() ? hamr_gex_nbi_test() : 0;
}
void gex_NBI_Wait(gex_EC_t event_mask, gex_Flags_t flags);
void gex_NBI_BeginAccessRegion(gex_Flags_t flags);
gex_Event_t gex_NBI_EndAccessRegion(gex_Flags_t flags);

gex_Event_t gex_Coll_BarrierNB(gex_TM_t tm, gex_Flags_t flags);
static inline void gex_Coll_BarrierBlocking(gex_TM_t tm, gex_Flags_t flags) {
  gex_Event_Wait(gex_Coll_BarrierNB(tm, flags));
}

/* One-sided memory. */

static inline void hamr_gex_leaf(gex_Event_t *lc_opt) {
  if ((uintptr_t)lc_opt > (uintptr_t)GEX_EVENT_GROUP) *lc_opt = GEX_EVENT_INVALID;
}
static inline int gex_RMA_PutBlocking(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes,
                                      gex_Flags_t flags) {
  (void)flags;
  hamr_gex_put("gex_RMA_PutBlocking", tm, rank, dest, src, nbytes);
  return 0;
}
static inline int gex_RMA_PutNBI(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes,
                                 gex_Event_t *lc_opt, gex_Flags_t flags) {
  (void)lc_opt, (void)flags;
  hamr_gex_put("gex_RMA_PutNBI", tm, rank, dest, src, nbytes);
  return 0;
}
static inline gex_Event_t gex_RMA_PutNB(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes,
                                        gex_Event_t *lc_opt, gex_Flags_t flags) {
  (void)flags;
  hamr_gex_put("gex_RMA_PutNB", tm, rank, dest, src, nbytes);
  hamr_gex_leaf(lc_opt);
  return GEX_EVENT_INVALID;
}
static inline int gex_RMA_GetBlocking(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src, size_t nbytes,
                                      gex_Flags_t flags) {
  (void)flags;
  hamr_gex_get("gex_RMA_GetBlocking", tm, dest, rank, src, nbytes);
  return 0;
}
static inline int gex_RMA_GetNBI(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src, size_t nbytes,
                                 gex_Flags_t flags) {
  (void)flags;
  hamr_gex_get("gex_RMA_GetNBI", tm, dest, rank, src, nbytes);
  return 0;
}
static inline gex_Event_t gex_RMA_GetNB(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src, size_t nbytes,
                                        gex_Flags_t flags) {
  (void)flags;
  hamr_gex_get("gex_RMA_GetNB", tm, dest, rank, src, nbytes);
  return GEX_EVENT_INVALID;
}
static inline gex_RMA_Value_t gex_RMA_GetBlockingVal(gex_TM_t tm, gex_Rank_t rank, void *src, size_t nbytes,
                                                     gex_Flags_t flags) {
  (void)flags;
  return hamr_gex_get_value("gex_RMA_GetBlockingVal", tm, rank, src, nbytes);
}
static inline int gex_RMA_PutBlockingVal(gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value,
                                         size_t nbytes, gex_Flags_t flags) {
  (void)flags;
  hamr_gex_put_value("gex_RMA_PutBlockingVal", tm, rank, dest, value, nbytes);
  return 0;
}
static inline int gex_RMA_PutNBIVal(gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value, size_t nbytes,
                                    gex_Flags_t flags) {
  return gex_RMA_PutBlockingVal(tm, rank, dest, value, nbytes, flags);
}
static inline gex_Event_t gex_RMA_PutNBVal(gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value,
                                           size_t nbytes, gex_Flags_t flags) {
  gex_RMA_PutBlockingVal(tm, rank, dest, value, nbytes, flags);
  return GEX_EVENT_INVALID;
}

/* Handler-safe locks. */

typedef struct {
  uint32_t hamr_state;
  uint32_t hamr_depth;
  uint64_t hamr_owner;
} gex_HSL_t;
#define GEX_HSL_INITIALIZER {0x4C534800u, 0, 0}
void gex_HSL_Init(gex_HSL_t *hsl);
void gex_HSL_Destroy(gex_HSL_t *hsl);
void gex_HSL_Lock(gex_HSL_t *hsl);
void gex_HSL_Unlock(gex_HSL_t *hsl);
int gex_HSL_Trylock(gex_HSL_t *hsl);

GASNETT_END_EXTERNC

#include <hamr_gasnet_text.h>

#endif
