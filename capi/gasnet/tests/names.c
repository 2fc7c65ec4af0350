/* Every name of the specifications is there: functions, types, constants, and the arities of messages.
 * ranks: 1 */
#include "test.h"
#include <gasnet_coll.h>
#include <gasnet_fwd.h>
#include <gasnet_mk.h>
#include <gasnet_ratomic.h>
#include <gasnet_tools.h>
#include <gasnet_vis.h>

typedef void (*function)(void);
#define F(name) (function)(name)
#define ARITIES(R)                                                                                                  \
  F(R##0), F(R##1), F(R##2), F(R##3), F(R##4), F(R##5), F(R##6), F(R##7), F(R##8), F(R##9), F(R##10), F(R##11),     \
      F(R##12), F(R##13), F(R##14), F(R##15), F(R##16)
#define THREE(name) F(name##Blocking), F(name##NB), F(name##NBI)

static const function functions[] = {
    F(gex_System_QueryJobRank), F(gex_System_QueryJobSize), F(gex_System_GetVerboseErrors), F(gex_System_SetVerboseErrors),
    F(gex_System_QueryMaxThreads), F(gex_System_QueryHiddenAMConcurrencyLevel), F(gex_System_QueryProgressThreads),
    F(gex_System_QueryNbrhdInfo), F(gex_System_QueryHostInfo), F(gex_System_QueryMyPosition),
    F(gex_Client_SetCData), F(gex_Client_QueryCData), F(gex_Client_QueryFlags), F(gex_Client_QueryName),
    F(gex_Segment_SetCData), F(gex_Segment_QueryCData), F(gex_Segment_QueryClient), F(gex_Segment_QueryFlags),
    F(gex_Segment_QueryAddr), F(gex_Segment_QuerySize), F(gex_Segment_QueryBound), F(gex_Segment_Attach),
    F(gex_Segment_Create), F(gex_Segment_Destroy),
    F(gex_TM_SetCData), F(gex_TM_QueryCData), F(gex_TM_QueryClient), F(gex_TM_QueryEP), F(gex_TM_QueryFlags),
    F(gex_TM_QueryRank), F(gex_TM_QuerySize), F(gex_TM_Split), F(gex_TM_Create), F(gex_TM_Destroy), F(gex_TM_Pair),
    F(gex_TM_TranslateRankToJobrank), F(gex_TM_TranslateJobrankToRank), F(gex_TM_TranslateRankToEP),
    F(gex_EP_SetCData), F(gex_EP_QueryCData), F(gex_EP_QueryClient), F(gex_EP_QueryFlags), F(gex_EP_QuerySegment),
    F(gex_EP_QueryIndex), F(gex_EP_QueryCapabilities), F(gex_EP_QueryBoundSegmentNB), F(gex_EP_PublishBoundSegment),
    F(gex_EP_RegisterHandlers), F(gex_EP_Create), F(gex_EP_Destroy), F(gex_EP_BindSegment),
    F(gex_MK_Create), F(gex_MK_Destroy),
    F(gex_AM_MaxArgs), F(gex_AM_MaxRequestLong), F(gex_AM_MaxReplyLong), F(gex_AM_MaxRequestMedium),
    F(gex_AM_MaxReplyMedium), F(gex_Token_MaxReplyLong), F(gex_Token_MaxReplyMedium), F(gex_AM_LUBRequestLong),
    F(gex_AM_LUBReplyLong), F(gex_AM_LUBRequestMedium), F(gex_AM_LUBReplyMedium), F(gex_Token_Info),
    ARITIES(gex_AM_RequestShort), ARITIES(gex_AM_RequestMedium), ARITIES(gex_AM_RequestLong), ARITIES(gex_AM_ReplyShort),
    ARITIES(gex_AM_ReplyMedium), ARITIES(gex_AM_ReplyLong), ARITIES(gex_AM_CommitRequestMedium),
    ARITIES(gex_AM_CommitRequestLong), ARITIES(gex_AM_CommitReplyMedium), ARITIES(gex_AM_CommitReplyLong),
    F(gex_AM_PrepareRequestMedium), F(gex_AM_PrepareRequestLong), F(gex_AM_PrepareReplyMedium), F(gex_AM_PrepareReplyLong),
    F(gex_AM_CancelRequestMedium), F(gex_AM_CancelRequestLong), F(gex_AM_CancelReplyMedium), F(gex_AM_CancelReplyLong),
    F(gex_AM_SrcDescAddr), F(gex_AM_SrcDescSize),
    THREE(gex_RMA_Put), THREE(gex_RMA_Get), F(gex_RMA_GetBlockingVal), F(gex_RMA_PutBlockingVal), F(gex_RMA_PutNBVal),
    F(gex_RMA_PutNBIVal), F(gex_NBI_BeginAccessRegion), F(gex_NBI_EndAccessRegion), F(gex_NBI_Test), F(gex_NBI_Wait),
    F(gex_Event_Test), F(gex_Event_Wait), F(gex_Event_TestSome), F(gex_Event_WaitSome), F(gex_Event_TestAll),
    F(gex_Event_WaitAll), F(gex_Event_QueryLeaf),
    F(gex_HSL_Init), F(gex_HSL_Destroy), F(gex_HSL_Lock), F(gex_HSL_Unlock), F(gex_HSL_Trylock),
    F(gex_AD_Create), F(gex_AD_Destroy), F(gex_AD_QueryFlags), F(gex_AD_QueryTM), F(gex_AD_QueryDT), F(gex_AD_QueryOps),
    F(gex_AD_SetCData), F(gex_AD_QueryCData), F(gex_AD_OpNB_I32), F(gex_AD_OpNB_U32), F(gex_AD_OpNB_I64), F(gex_AD_OpNB_U64),
    F(gex_AD_OpNB_FLT), F(gex_AD_OpNB_DBL), F(gex_AD_OpNBI_I32), F(gex_AD_OpNBI_U32), F(gex_AD_OpNBI_I64),
    F(gex_AD_OpNBI_U64), F(gex_AD_OpNBI_FLT), F(gex_AD_OpNBI_DBL),
    THREE(gex_VIS_VectorPut), THREE(gex_VIS_VectorGet), THREE(gex_VIS_IndexedPut), THREE(gex_VIS_IndexedGet),
    THREE(gex_VIS_StridedPut), THREE(gex_VIS_StridedGet), F(gex_VIS_SetPeerCompletionHandler),
    F(gex_Coll_BarrierNB), F(gex_Coll_BroadcastNB), F(gex_Coll_ReduceToOneNB), F(gex_Coll_ReduceToAllNB),
    F(gasnet_QueryGexObjects), F(gasnet_attach), F(gasnet_exit), F(gasnet_mynode), F(gasnet_nodes), F(gasnet_getenv),
    F(gasnet_getSegmentInfo), F(gasnet_getMaxLocalSegmentSize), F(gasnet_getMaxGlobalSegmentSize), F(gasnet_ErrorName),
    F(gasnet_ErrorDesc), F(gasnet_AMMaxArgs), F(gasnet_AMMaxMedium), F(gasnet_AMMaxLongRequest), F(gasnet_AMMaxLongReply),
    F(gasnet_AMPoll), F(gasnet_AMGetMsgSource), F(gasnet_set_waitmode), F(gasnet_barrier), F(gasnet_barrier_notify),
    F(gasnet_barrier_wait), F(gasnet_barrier_try), F(gasnet_barrier_result),
    ARITIES(gasnet_AMRequestShort), ARITIES(gasnet_AMRequestMedium), ARITIES(gasnet_AMRequestLong),
    ARITIES(gasnet_AMRequestLongAsync), ARITIES(gasnet_AMReplyShort), ARITIES(gasnet_AMReplyMedium),
    ARITIES(gasnet_AMReplyLong), F(gasnet_memset), F(gasnet_memset_nb), F(gasnet_memset_nbi)};

/* Each has bits of its own. */
static const uint32_t types[] = {GEX_DT_I32, GEX_DT_U32, GEX_DT_I64, GEX_DT_U64, GEX_DT_FLT, GEX_DT_DBL, GEX_DT_USER};
static const uint32_t ops[] = {
    GEX_OP_ADD,  GEX_OP_MULT, GEX_OP_MIN,  GEX_OP_MAX,  GEX_OP_SUB,  GEX_OP_INC,  GEX_OP_DEC,  GEX_OP_AND,  GEX_OP_OR,
    GEX_OP_XOR,  GEX_OP_SET,  GEX_OP_CAS,  GEX_OP_FADD, GEX_OP_FMULT, GEX_OP_FMIN, GEX_OP_FMAX, GEX_OP_FSUB, GEX_OP_FINC,
    GEX_OP_FDEC, GEX_OP_FAND, GEX_OP_FOR,  GEX_OP_FXOR, GEX_OP_SWAP, GEX_OP_FCAS, GEX_OP_GET,  GEX_OP_USER, GEX_OP_USER_NC};
static const uint32_t calls[] = {
    GEX_FLAG_IMMEDIATE, GEX_FLAG_LC_COPY_YES, GEX_FLAG_LC_COPY_NO, GEX_FLAG_PEER_NEVER_SELF, GEX_FLAG_PEER_NEVER_NBRHD,
    GEX_FLAG_SELF_SEG_UNKNOWN, GEX_FLAG_SELF_SEG_SOME, GEX_FLAG_SELF_SEG_BOUND, GEX_FLAG_SELF_SEG_OFFSET,
    GEX_FLAG_PEER_SEG_UNKNOWN, GEX_FLAG_PEER_SEG_SOME, GEX_FLAG_PEER_SEG_BOUND, GEX_FLAG_PEER_SEG_OFFSET,
    GEX_FLAG_IMMEDIATE_COMMIT, GEX_FLAG_AM_PREPARE_LEAST_CLIENT, GEX_FLAG_AM_PREPARE_LEAST_ALLOC, GEX_FLAG_ENABLE_LEAF_LC,
    GEX_FLAG_RANK_IS_JOBRANK, GEX_FLAG_AD_MY_RANK, GEX_FLAG_AD_MY_NBRHD, GEX_FLAG_AD_ACQ, GEX_FLAG_AD_REL,
    GEX_FLAG_AD_FAVOR_MY_RANK, GEX_FLAG_AD_FAVOR_MY_NBRHD, GEX_FLAG_AD_FAVOR_REMOTE};
static const uint32_t teams[] = {
    GEX_FLAG_TM_SCRATCH_SIZE_MIN, GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED, GEX_FLAG_TM_GLOBAL_SCRATCH, GEX_FLAG_TM_LOCAL_SCRATCH,
    GEX_FLAG_TM_SYMMETRIC_SCRATCH, GEX_FLAG_TM_NO_SCRATCH, GEX_FLAG_SCRATCH_SEG_OFFSET, GEX_FLAG_GLOBALLY_QUIESCED,
    GEX_FLAG_USES_GASNET1, GEX_FLAG_DEFER_THREADS, GEX_FLAG_HINT_ACCEL_AD, GEX_FLAG_HINT_ACCEL_COLL};
static const uint32_t categories[] = {GEX_EC_GET, GEX_EC_PUT, GEX_EC_AM, GEX_EC_LC, GEX_EC_RMW};
static const uint32_t infos[] = {GEX_TI_SRCRANK, GEX_TI_EP, GEX_TI_ENTRY, GEX_TI_IS_REQ, GEX_TI_IS_LONG};
static const uint32_t capabilities[] = {GEX_EP_CAPABILITY_RMA, GEX_EP_CAPABILITY_AM, GEX_EP_CAPABILITY_VIS,
                                        GEX_EP_CAPABILITY_COLL, GEX_EP_CAPABILITY_AD};
static uint32_t sum_of(const uint32_t *bits, size_t count) {
  uint32_t sum = 0;
  for (size_t i = 0; i < count; i++) {
    CHECK(bits[i] && !(sum & bits[i]));
    sum |= bits[i];
  }
  return sum;
}
#define SUM(bits) sum_of(bits, sizeof bits / sizeof *bits)

#if GASNET_MAXNODES < 2 || GASNET_MAXEPS < 1 || GASNET_PAGESIZE % 4096 || GEX_AM_INDEX_BASE > 128 || SIZEOF_GEX_RMA_VALUE_T < 8
#error "constants that the preprocessor can use"
#endif
#if GASNET_VERSION != GASNET_SPEC_VERSION_MAJOR || GEX_SPEC_VERSION_MAJOR + GEX_SPEC_VERSION_MINOR < 1 || \
    GASNET_RELEASE_VERSION_MAJOR < 2000 || GASNET_RELEASE_VERSION_MINOR + GASNET_RELEASE_VERSION_PATCH > 99 || \
    !defined(GASNET_SEGMENT_FAST) || !defined(GASNET_ALIGNED_SEGMENTS) || GASNET_HIDDEN_AM_CONCURRENCY_LEVEL ||   \
    GASNET_SPEC_VERSION_MINOR < 8 || GASNETT_SPEC_VERSION_MAJOR < 1 || SIZEOF_GASNET_REGISTER_VALUE_T != SIZEOF_GEX_RMA_VALUE_T
#error "versions and configuration"
#endif

static int fetched(void) { return GEX_OP_TO_FETCHING(GEX_OP_SET) == GEX_OP_SWAP && GEX_OP_TO_NONFETCHING(GEX_OP_FXOR) == GEX_OP_XOR; }

int main(int argc, char **argv) {
  const size_t sizes[] = {
      sizeof(gex_Rank_t), sizeof(gex_EP_Index_t), sizeof(gex_Addr_t), sizeof(gex_Flags_t), sizeof(gex_AM_Index_t),
      sizeof(gex_AM_Arg_t), sizeof(gex_AM_Fn_t), sizeof(gex_RMA_Value_t), sizeof(gex_Event_t), sizeof(gex_Client_t),
      sizeof(gex_Segment_t), sizeof(gex_EP_t), sizeof(gex_TM_t), sizeof(gex_Token_t), sizeof(gex_AM_SrcDesc_t), sizeof(gex_MK_t),
      sizeof(gex_EP_Location_t), sizeof(gex_AM_Entry_t), sizeof(gex_Token_Info_t), sizeof(gex_TI_t), sizeof(gex_EC_t),
      sizeof(gex_RankInfo_t), sizeof(gex_HSL_t), sizeof(gex_DT_t), sizeof(gex_OP_t), sizeof(gex_AD_t), sizeof(gex_Coll_ReduceFn_t),
      sizeof(gex_EP_Capabilities_t), sizeof(gex_MK_Class_t), sizeof(gex_MK_Create_args_t), sizeof(gex_ProgressThreadInfo_t),
      sizeof(gasnet_node_t), sizeof(gasnet_handle_t), sizeof(gasnet_handler_t), sizeof(gasnet_token_t), sizeof(gasnet_hsl_t),
      sizeof(gasnet_seginfo_t), sizeof(gasnet_handlerentry_t), sizeof(gasnet_threadinfo_t), sizeof(gasnet_valget_handle_t)};
  GASNET_BEGIN_FUNCTION();
  start(&argc, &argv);
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) CHECK(functions[i]);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) CHECK(sizes[i]);
  SUM(types), SUM(ops), SUM(calls), SUM(teams);
  CHECK(SUM(categories) == GEX_EC_ALL && SUM(infos) == GEX_TI_ALL && SUM(capabilities) == GEX_EP_CAPABILITY_ALL && fetched());
  CHECK(GEX_OP_CSWAP == GEX_OP_FCAS && GEX_FLAG_HINT_ACCEL_ALL == (GEX_FLAG_HINT_ACCEL_AD | GEX_FLAG_HINT_ACCEL_COLL));
  CHECK(sizeof(gex_Memvec_t) == sizeof(gasnet_memvec_t) && sizeof(gasnet_handlerarg_t) == 4 && sizeof(gasnet_register_value_t) == 8);
  CHECK(!GEX_CLIENT_INVALID && !GEX_SEGMENT_INVALID && !GEX_EP_INVALID && !GEX_TM_INVALID && !GEX_AM_SRCDESC_NO_OP && !GEX_AD_INVALID);
  CHECK(!GEX_EVENT_INVALID && !GASNET_INVALID_HANDLE && GEX_EVENT_NO_OP && !GEX_MK_INVALID && GEX_MK_HOST && (gex_Rank_t)-1 <= GEX_RANK_INVALID);
  CHECK(GEX_EVENT_NOW != GEX_EVENT_DEFER && GEX_EVENT_DEFER != GEX_EVENT_GROUP && GEX_EVENT_NOW != GEX_EVENT_GROUP);
  CHECK((GEX_FLAG_AM_SHORT | GEX_FLAG_AM_MEDLONG) == 7 && GEX_FLAG_AM_MEDLONG == (GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_LONG));
  CHECK(GEX_FLAG_AM_REQREP == (GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_REPLY) && GEX_VIS_MAX_PEERCOMPLETION >= 127);
  CHECK(GASNET_BARRIERFLAG_UNNAMED & GASNET_BARRIERFLAG_ANONYMOUS && !(GASNET_BARRIERFLAG_MISMATCH & GASNET_BARRIERFLAG_UNNAMED));
  CHECK(GEX_THREAD_ROLE_RCV != GEX_THREAD_ROLE_SND && GEX_MK_CLASS_HOST != GEX_MK_CLASS_CUDA_UVA && *GASNET_CONFIG_STRING);
  CHECK(GASNET_WAIT_SPIN != GASNET_WAIT_BLOCK && !gasnet_set_waitmode(GASNET_WAIT_SPINBLOCK));
  CHECK(!gasnet_barrier(1, 0) && !gex_AM_Poll());
  gasnet_hold_interrupts();
  gasnet_resume_interrupts();
  return done();
}
