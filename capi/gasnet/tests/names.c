/* Every name of the specifications, with its type: a name that is missing, or of another type, does not compile. What the
 * specifications call functions and the headers make macros is called, in code that does not run.
 * ranks: 1 */
#include "test.h"
#include <gasnet_coll.h>
#include <gasnet_fwd.h>
#include <gasnet_mk.h>
#include <gasnet_ratomic.h>
#include <gasnet_tools.h>
#include <gasnet_vis.h>
#pragma GCC diagnostic error "-Wincompatible-pointer-types"
#pragma GCC diagnostic error "-Wint-conversion"
#pragma GCC diagnostic error "-Wimplicit-function-declaration"

typedef void (*function)(void);
static int functions, macros, constants, types, fields;
static void keep(function f) {
  CHECK(f);
  functions++;
}
static void keep_type(size_t bytes) {
  CHECK(bytes);
  types++;
}

/* A function: its pointer has that type. */
#define FN(T, name, parameters)      \
  do {                               \
    T(*const is) parameters = name;  \
    keep((function)is);              \
  } while (0)
/* The same for what may be a macro: a call has that type. */
#define CALL(T, call)                                              \
  do {                                                             \
    T (*const is)(void) = (__typeof__(call)(*)(void))(function)0;  \
    (void)is, macros++;                                            \
  } while (0)
/* A constant of that type, which a static initializer may have. */
#define CONSTANT(T, name)                                          \
  do {                                                             \
    static const T is = name;                                      \
    T (*const of)(void) = (__typeof__(name)(*)(void))(function)0;  \
    (void)is, (void)of, constants++;                               \
  } while (0)
/* One whose type is not said. */
#define VALUE(T, name)         \
  do {                         \
    static const T is = name;  \
    (void)is, constants++;     \
  } while (0)
#define TYPE(T) keep_type(sizeof(T))
/* Both names are of one type. */
#define SAME(T, U)                    \
  do {                                \
    T *const is = (U *)0;             \
    (void)is, keep_type(sizeof(T));   \
  } while (0)
#define FIELD(T, S, field)         \
  do {                             \
    S of;                          \
    T *const at = &of.field;       \
    (void)at, fields++;            \
  } while (0)
#define IS_UNSIGNED(T) CHECK((T)-1 > (T)0)

#define P0
#define P1 , gex_AM_Arg_t
#define P2 P1 P1
#define P3 P2 P1
#define P4 P2 P2
#define P5 P4 P1
#define P6 P4 P2
#define P7 P4 P3
#define P8 P4 P4
#define P9 P8 P1
#define P10 P8 P2
#define P11 P8 P3
#define P12 P8 P4
#define P13 P8 P5
#define P14 P8 P6
#define P15 P8 P7
#define P16 P8 P8
#define EACH(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15) F(16)
/* The types that a group of functions is for. */
#define EACH_TYPE(F) F(I32, int32_t) F(U32, uint32_t) F(I64, int64_t) F(U64, uint64_t) F(FLT, float) F(DBL, double)
#define EACH_KIND(F) F(Blocking, int) F(NB, gex_Event_t) F(NBI, int)

#if GASNET_MAXNODES < 2 || GASNET_MAXEPS < 1 || GASNET_PAGESIZE % 4096 || GEX_AM_INDEX_BASE > 128 || SIZEOF_GEX_RMA_VALUE_T < 8
#error "constants that the preprocessor can use"
#endif
#if GASNET_VERSION != GASNET_SPEC_VERSION_MAJOR || GEX_SPEC_VERSION_MAJOR + GEX_SPEC_VERSION_MINOR < 1 || \
    GASNET_RELEASE_VERSION_MAJOR < 2000 || GASNET_RELEASE_VERSION_MINOR + GASNET_RELEASE_VERSION_PATCH > 99 || \
    !defined(GASNET_SEGMENT_FAST) || !defined(GASNET_ALIGNED_SEGMENTS) || GASNET_HIDDEN_AM_CONCURRENCY_LEVEL ||   \
    GASNET_SPEC_VERSION_MINOR < 8 || GASNETT_SPEC_VERSION_MAJOR < 1 || GASNETT_SPEC_VERSION_MINOR < 16 ||           \
    SIZEOF_GASNET_REGISTER_VALUE_T != SIZEOF_GEX_RMA_VALUE_T
#error "versions and configuration"
#endif
#if defined(GASNET_DEBUG) + defined(GASNET_NDEBUG) != 1 || GASNET_HAMR_CONDUIT != 1 || GASNET_PSHM != 1
#error "what an implementation says of itself"
#endif
/* Numbers that programs have compiled in. */
#define FIRST_OF(mask, bit) ((mask) == 1u << (bit))
#if !FIRST_OF(GEX_OP_AND, 0) || !FIRST_OF(GEX_OP_ADD, 3) || !FIRST_OF(GEX_OP_INC, 8) || !FIRST_OF(GEX_OP_CAS, 11) ||     \
    !FIRST_OF(GEX_OP_FAND, 15) || !FIRST_OF(GEX_OP_FDEC, 24) || !FIRST_OF(GEX_OP_SWAP, 25) || !FIRST_OF(GEX_OP_GET, 27) || \
    !FIRST_OF(GEX_OP_USER, 30) || !FIRST_OF(GEX_OP_USER_NC, 31) || !FIRST_OF(GEX_DT_DBL, 5) || !FIRST_OF(GEX_DT_USER, 6)
#error "bits of operations and types"
#endif
#if GASNET_ERR_NOT_INIT != 10001 || GASNET_ERR_RESOURCE != 10002 || GASNET_ERR_BAD_ARG != 10003 || GASNET_ERR_NOT_READY != 10004 || \
    GASNET_ERR_BARRIER_MISMATCH != 10005
#error "errors"
#endif
#if !FIRST_OF(GEX_FLAG_IMMEDIATE, 0) || !FIRST_OF(GEX_FLAG_SELF_SEG_UNKNOWN, 3) || !FIRST_OF(GEX_FLAG_PEER_SEG_OFFSET, 10) ||   \
    !FIRST_OF(GEX_FLAG_AM_PREPARE_LEAST_CLIENT, 11) || !FIRST_OF(GEX_FLAG_AD_MY_RANK, 11) || !FIRST_OF(GEX_FLAG_AD_REL, 1) ||     \
    !FIRST_OF(GEX_FLAG_ENABLE_LEAF_LC, 11) || !FIRST_OF(GEX_FLAG_AM_PREPARE_LEAST_ALLOC, 12) || !FIRST_OF(GEX_FLAG_AD_ACQ, 2) ||  \
    !FIRST_OF(GEX_FLAG_AD_FAVOR_REMOTE, 2) || !FIRST_OF(GEX_FLAG_GLOBALLY_QUIESCED, 13) || !FIRST_OF(GEX_FLAG_TM_NO_SCRATCH, 5) || \
    !FIRST_OF(GEX_FLAG_RANK_IS_JOBRANK, 13) || !FIRST_OF(GEX_FLAG_DEFER_THREADS, 1) || !FIRST_OF(GEX_FLAG_HINT_ACCEL_COLL, 1) ||  \
    !FIRST_OF(GEX_FLAG_SCRATCH_SEG_OFFSET, 6) || !FIRST_OF(GEX_FLAG_AD_MY_NBRHD, 12) || !FIRST_OF(GEX_FLAG_USES_GASNET1, 0)
#error "flags"
#endif
#if !(GEX_EC_ALL && GEX_TI_ALL && GEX_EP_CAPABILITY_ALL && GEX_FLAG_AM_REQREP && GEX_RANK_INVALID) || GASNET_CONDUIT_SMP != 1 || \
    GASNET_SUPPORTS_AM_COMMIT_V2 != 20240906L || GASNET_SUPPORTS_AM_CANCEL != 1 || GASNET_SUPPORTS_TI_SRCRANK != 1 ||            \
    GASNET_SUPPORTS_TI_EP != 1 || GASNET_SUPPORTS_TI_ENTRY != 1 || GASNET_SUPPORTS_TI_IS_REQ != 1 || GASNET_SUPPORTS_TI_IS_LONG != 1
#error "what the preprocessor can ask"
#endif
#if !defined(_INCLUDED_GASNET_H) || !defined(_INCLUDED_GASNETEX_H) || !defined(_INCLUDED_GASNET_TOOLS_H) || HAVE_PTHREAD_H != 1 || \
    SIZEOF_INT != 4 || SIZEOF_LONG != 8 || SIZEOF_SIZE_T != 8 || SIZEOF_VOID_P != 8 || GASNETT_MAX_THREADS != GASNETI_MAX_THREADS
#error "names beside the specification"
#endif
#if !(GEX_DT_I32 && GEX_DT_U32 && GEX_DT_I64 && GEX_DT_U64 && GEX_DT_FLT && GEX_DT_DBL && GEX_DT_USER) || !GEX_OP_USER_NC
#error "types and operations are constants of the preprocessor"
#endif

static void all_types(void) {
  gex_Token_Info_t token;
  TYPE(gex_Rank_t), TYPE(gex_EP_Index_t), TYPE(gex_Flags_t), TYPE(gex_AM_Fn_t), TYPE(gex_RMA_Value_t), TYPE(gex_Event_t);
  TYPE(gex_Client_t), TYPE(gex_Segment_t), TYPE(gex_EP_t), TYPE(gex_TM_t), TYPE(gex_Token_t), TYPE(gex_AM_SrcDesc_t);
  TYPE(gex_MK_t), TYPE(gex_AD_t), TYPE(gex_TI_t), TYPE(gex_EC_t), TYPE(gex_HSL_t), TYPE(gex_DT_t), TYPE(gex_OP_t);
  TYPE(gex_EP_Capabilities_t), TYPE(gex_MK_Class_t), TYPE(gasnet_handle_t), TYPE(gasnet_valget_handle_t);
  SAME(gex_AM_Index_t, uint8_t);
  SAME(gex_AM_Arg_t, int32_t);
  SAME(gex_Addr_t, void *);
  SAME(gasnet_node_t, gex_Rank_t);
  SAME(gasnet_handle_t, gex_Event_t);
  SAME(gasnet_token_t, gex_Token_t);
  SAME(gasnet_handler_t, gex_AM_Index_t);
  SAME(gasnet_handlerarg_t, gex_AM_Arg_t);
  SAME(gasnet_register_value_t, gex_RMA_Value_t);
  SAME(gasnet_hsl_t, gex_HSL_t);
  SAME(gasnet_threadinfo_t, void *);
  IS_UNSIGNED(gex_Rank_t); IS_UNSIGNED(gex_EP_Index_t); IS_UNSIGNED(gex_RMA_Value_t);
  CHECK(sizeof(gex_RMA_Value_t) == SIZEOF_GEX_RMA_VALUE_T && GASNET_MAXNODES - 1 <= (gex_Rank_t)-1);
  typedef void (*reduction)(const void *, void *, size_t, const void *);
  SAME(gex_Coll_ReduceFn_t, reduction);
  TYPE(gex_Memvec_t), TYPE(gasnet_memvec_t), TYPE(gex_EP_Location_t), TYPE(gex_AM_Entry_t), TYPE(gex_Token_Info_t);
  TYPE(gex_RankInfo_t), TYPE(gex_MK_Create_args_t), TYPE(gex_ProgressThreadInfo_t), TYPE(gasnet_seginfo_t);
  TYPE(gasnet_handlerentry_t);
  FIELD(void *, gex_Memvec_t, gex_addr);
  FIELD(size_t, gex_Memvec_t, gex_len);
  CHECK(sizeof(gex_Memvec_t) == sizeof(gasnet_memvec_t) && offsetof(gex_Memvec_t, gex_len) == offsetof(gasnet_memvec_t, len));
  FIELD(void *, gasnet_memvec_t, addr);
  FIELD(size_t, gasnet_memvec_t, len);
  FIELD(gex_Rank_t, gex_EP_Location_t, gex_rank);
  FIELD(gex_EP_Index_t, gex_EP_Location_t, gex_ep_index);
  FIELD(gex_AM_Index_t, gex_AM_Entry_t, gex_index);
  FIELD(gex_AM_Fn_t, gex_AM_Entry_t, gex_fnptr);
  FIELD(gex_Flags_t, gex_AM_Entry_t, gex_flags);
  FIELD(unsigned int, gex_AM_Entry_t, gex_nargs);
  FIELD(const void *, gex_AM_Entry_t, gex_cdata);
  FIELD(const char *, gex_AM_Entry_t, gex_name);
  FIELD(gex_Rank_t, gex_Token_Info_t, gex_srcrank);
  FIELD(gex_EP_t, gex_Token_Info_t, gex_ep);
  FIELD(const gex_AM_Entry_t *, gex_Token_Info_t, gex_entry);
  CHECK(sizeof token.gex_is_req && sizeof token.gex_is_long);
  fields += 2;
  FIELD(const gex_Rank_t, gex_RankInfo_t, gex_jobrank);
  typedef void *(*progress)(void *);
  FIELD(const char *, gex_ProgressThreadInfo_t, gex_device_list);
  FIELD(unsigned int, gex_ProgressThreadInfo_t, gex_thread_roles);
  FIELD(progress, gex_ProgressThreadInfo_t, gex_progress_fn);
  FIELD(void *, gex_ProgressThreadInfo_t, gex_progress_arg);
  FIELD(uint64_t, gex_MK_Create_args_t, gex_flags);
  FIELD(gex_MK_Class_t, gex_MK_Create_args_t, gex_class);
  FIELD(int, gex_MK_Create_args_t, gex_args.gex_class_cuda_uva.gex_CUdevice);
  FIELD(int, gex_MK_Create_args_t, gex_args.gex_class_hip.gex_hipDevice);
  FIELD(void *, gex_MK_Create_args_t, gex_args.gex_class_ze.gex_zeDevice);
  FIELD(void *, gex_MK_Create_args_t, gex_args.gex_class_ze.gex_zeContext);
  FIELD(uint32_t, gex_MK_Create_args_t, gex_args.gex_class_ze.gex_zeMemoryOrdinal);
  FIELD(gasnet_handler_t, gasnet_handlerentry_t, index);
  FIELD(gex_AM_Fn_t, gasnet_handlerentry_t, fnptr);
  FIELD(void *, gasnet_seginfo_t, addr);
  FIELD(uintptr_t, gasnet_seginfo_t, size);
}

/* Flags and other bits of one call are disjoint. */
#define BIT(T, name)               \
  do {                             \
    CONSTANT(T, name);             \
    CHECK(name && !(sum & name));  \
    sum |= name;                   \
  } while (0)
#define FLAG(name) BIT(gex_Flags_t, GEX_FLAG_##name)
static void all_constants(void) {
  uint32_t sum = 0;
  FLAG(IMMEDIATE); FLAG(LC_COPY_YES); FLAG(LC_COPY_NO); FLAG(PEER_NEVER_SELF); FLAG(PEER_NEVER_NBRHD);
  FLAG(SELF_SEG_UNKNOWN); FLAG(SELF_SEG_SOME); FLAG(SELF_SEG_BOUND); FLAG(SELF_SEG_OFFSET); FLAG(PEER_SEG_UNKNOWN);
  FLAG(PEER_SEG_SOME); FLAG(PEER_SEG_BOUND); FLAG(PEER_SEG_OFFSET);
  const uint32_t of_all = sum;
  FLAG(AM_PREPARE_LEAST_CLIENT); FLAG(AM_PREPARE_LEAST_ALLOC);
  sum = of_all;
  FLAG(ENABLE_LEAF_LC);
  sum = GEX_FLAG_IMMEDIATE | GEX_FLAG_PEER_NEVER_SELF | GEX_FLAG_PEER_NEVER_NBRHD;
  FLAG(AD_MY_RANK); FLAG(AD_MY_NBRHD); FLAG(AD_ACQ); FLAG(AD_REL); FLAG(RANK_IS_JOBRANK);
  sum = 0;
  FLAG(AD_FAVOR_MY_RANK); FLAG(AD_FAVOR_MY_NBRHD); FLAG(AD_FAVOR_REMOTE);
  sum = GEX_FLAG_RANK_IS_JOBRANK;
  FLAG(TM_SCRATCH_SIZE_MIN); FLAG(TM_SCRATCH_SIZE_RECOMMENDED); FLAG(TM_GLOBAL_SCRATCH); FLAG(TM_LOCAL_SCRATCH);
  FLAG(TM_SYMMETRIC_SCRATCH); FLAG(TM_NO_SCRATCH); FLAG(SCRATCH_SEG_OFFSET);
  sum = 0;
  FLAG(GLOBALLY_QUIESCED);
  sum = 0;
  FLAG(USES_GASNET1); FLAG(DEFER_THREADS);
  sum = 0;
  FLAG(HINT_ACCEL_AD); FLAG(HINT_ACCEL_COLL);
  CONSTANT(gex_Flags_t, GEX_FLAG_HINT_ACCEL_ALL);
  sum = 0;
  FLAG(AM_SHORT); FLAG(AM_MEDIUM); FLAG(AM_LONG); FLAG(AM_REQUEST); FLAG(AM_REPLY);
  CONSTANT(gex_Flags_t, GEX_FLAG_AM_MEDLONG);
  CONSTANT(gex_Flags_t, GEX_FLAG_AM_REQREP);
  CHECK(GEX_FLAG_AM_MEDLONG == (GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_LONG) && GEX_FLAG_AM_REQREP == (GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_REPLY));
  CHECK(GEX_FLAG_HINT_ACCEL_ALL == (GEX_FLAG_HINT_ACCEL_AD | GEX_FLAG_HINT_ACCEL_COLL));
  sum = 0;
  BIT(gex_EC_t, GEX_EC_GET); BIT(gex_EC_t, GEX_EC_PUT); BIT(gex_EC_t, GEX_EC_AM); BIT(gex_EC_t, GEX_EC_LC); BIT(gex_EC_t, GEX_EC_RMW);
  CONSTANT(gex_EC_t, GEX_EC_ALL);
  CHECK((GEX_EC_ALL & sum) == sum);
  sum = 0;
  BIT(gex_TI_t, GEX_TI_SRCRANK); BIT(gex_TI_t, GEX_TI_EP); BIT(gex_TI_t, GEX_TI_ENTRY); BIT(gex_TI_t, GEX_TI_IS_REQ);
  BIT(gex_TI_t, GEX_TI_IS_LONG);
  CONSTANT(gex_TI_t, GEX_TI_ALL);
  CHECK(GEX_TI_ALL == sum);
  sum = 0;
  BIT(gex_EP_Capabilities_t, GEX_EP_CAPABILITY_RMA); BIT(gex_EP_Capabilities_t, GEX_EP_CAPABILITY_AM);
  BIT(gex_EP_Capabilities_t, GEX_EP_CAPABILITY_VIS); BIT(gex_EP_Capabilities_t, GEX_EP_CAPABILITY_COLL);
  BIT(gex_EP_Capabilities_t, GEX_EP_CAPABILITY_AD);
  CONSTANT(gex_EP_Capabilities_t, GEX_EP_CAPABILITY_ALL);
  CHECK(GEX_EP_CAPABILITY_ALL == sum);
  sum = 0;
#define DT(name, T) VALUE(gex_DT_t, GEX_DT_##name); CHECK(GEX_DT_##name && !(sum & GEX_DT_##name)); sum |= GEX_DT_##name;
  EACH_TYPE(DT) DT(USER, none)
  sum = 0;
#define OP(name) VALUE(gex_OP_t, GEX_OP_##name); CHECK(GEX_OP_##name && !(sum & GEX_OP_##name)); sum |= GEX_OP_##name;
#define BOTH(name)                                                    \
  OP(name) OP(F##name)                                                \
  CHECK(GEX_OP_TO_FETCHING(GEX_OP_##name) == GEX_OP_F##name);         \
  CHECK(GEX_OP_TO_NONFETCHING(GEX_OP_F##name) == GEX_OP_##name);
  BOTH(ADD) BOTH(MULT) BOTH(MIN) BOTH(MAX) BOTH(SUB) BOTH(INC) BOTH(DEC) BOTH(AND) BOTH(OR) BOTH(XOR) BOTH(CAS)
  OP(SET) OP(SWAP) OP(GET) OP(USER) OP(USER_NC)
  VALUE(gex_OP_t, GEX_OP_CSWAP);
  macros += 2;
  CHECK(GEX_OP_TO_FETCHING(GEX_OP_SET) == GEX_OP_SWAP && GEX_OP_TO_NONFETCHING(GEX_OP_SWAP) == GEX_OP_SET && GEX_OP_CSWAP == GEX_OP_FCAS);
  CONSTANT(gex_Rank_t, GEX_RANK_INVALID);
  CHECK(GEX_RANK_INVALID >= GASNET_MAXNODES);
  CONSTANT(gex_Event_t, GEX_EVENT_INVALID); CONSTANT(gex_Event_t, GEX_EVENT_NO_OP); CONSTANT(gex_Event_t, GASNET_INVALID_HANDLE);
  CONSTANT(gex_Event_t *, GEX_EVENT_NOW); CONSTANT(gex_Event_t *, GEX_EVENT_DEFER); CONSTANT(gex_Event_t *, GEX_EVENT_GROUP);
  CHECK(!GEX_EVENT_INVALID && GEX_EVENT_NO_OP && !GASNET_INVALID_HANDLE && GEX_EVENT_NOW && GEX_EVENT_DEFER && GEX_EVENT_GROUP);
  CHECK(GEX_EVENT_NOW != GEX_EVENT_DEFER && GEX_EVENT_DEFER != GEX_EVENT_GROUP && GEX_EVENT_NOW != GEX_EVENT_GROUP);
  CONSTANT(gex_Client_t, GEX_CLIENT_INVALID); CONSTANT(gex_Segment_t, GEX_SEGMENT_INVALID); CONSTANT(gex_EP_t, GEX_EP_INVALID);
  CONSTANT(gex_TM_t, GEX_TM_INVALID); CONSTANT(gex_AM_SrcDesc_t, GEX_AM_SRCDESC_NO_OP); CONSTANT(gex_AD_t, GEX_AD_INVALID);
  CONSTANT(gex_MK_t, GEX_MK_INVALID); CONSTANT(gex_MK_t, GEX_MK_HOST);
  CHECK(!GEX_CLIENT_INVALID && !GEX_SEGMENT_INVALID && !GEX_EP_INVALID && !GEX_TM_INVALID && !GEX_AM_SRCDESC_NO_OP);
  CHECK(!GEX_AD_INVALID && !GEX_MK_INVALID && GEX_MK_HOST);
  VALUE(gex_MK_Class_t, GEX_MK_CLASS_HOST); VALUE(gex_MK_Class_t, GEX_MK_CLASS_CUDA_UVA); VALUE(gex_MK_Class_t, GEX_MK_CLASS_HIP);
  VALUE(gex_MK_Class_t, GEX_MK_CLASS_ZE);
  CONSTANT(size_t, GEX_VIS_MAX_PEERCOMPLETION);
  CHECK(GEX_VIS_MAX_PEERCOMPLETION >= 127);
  VALUE(gex_HSL_t, GEX_HSL_INITIALIZER); VALUE(gasnet_hsl_t, GASNET_HSL_INITIALIZER);
  VALUE(int, GASNET_OK); VALUE(int, GASNET_ERR_RESOURCE); VALUE(int, GASNET_ERR_BAD_ARG); VALUE(int, GASNET_ERR_NOT_INIT);
  VALUE(int, GASNET_ERR_BARRIER_MISMATCH); VALUE(int, GASNET_ERR_NOT_READY); VALUE(int, GASNET_BARRIERFLAG_ANONYMOUS);
  VALUE(int, GASNET_BARRIERFLAG_MISMATCH); VALUE(int, GASNET_BARRIERFLAG_UNNAMED); VALUE(int, GASNET_WAIT_SPIN);
  VALUE(int, GASNET_WAIT_BLOCK); VALUE(int, GASNET_WAIT_SPINBLOCK); VALUE(unsigned, GEX_THREAD_ROLE_RCV); VALUE(unsigned, GEX_THREAD_ROLE_SND);
  CHECK(!GASNET_OK && GASNET_BARRIERFLAG_UNNAMED & GASNET_BARRIERFLAG_ANONYMOUS && !(GASNET_BARRIERFLAG_MISMATCH & GASNET_BARRIERFLAG_UNNAMED));
  CHECK(GASNET_WAIT_SPIN != GASNET_WAIT_BLOCK && GASNET_WAIT_BLOCK != GASNET_WAIT_SPINBLOCK && *GASNET_CONFIG_STRING);
  constants += 18; /* those of the preprocessor, above */
}

static void objects(void) {
  FN(gex_Rank_t, gex_System_QueryJobRank, (void));
  FN(gex_Rank_t, gex_System_QueryJobSize, (void));
  FN(int, gex_System_GetVerboseErrors, (void));
  FN(void, gex_System_SetVerboseErrors, (int));
  FN(uint64_t, gex_System_QueryMaxThreads, (void));
  FN(int, gex_System_QueryHiddenAMConcurrencyLevel, (void));
  FN(int, gex_System_QueryProgressThreads, (gex_Client_t, unsigned int *, const gex_ProgressThreadInfo_t **, gex_Flags_t));
  FN(void, gex_System_QueryNbrhdInfo, (gex_RankInfo_t **, gex_Rank_t *, gex_Rank_t *));
  FN(void, gex_System_QueryHostInfo, (gex_RankInfo_t **, gex_Rank_t *, gex_Rank_t *));
  FN(void, gex_System_QueryMyPosition, (gex_Rank_t *, gex_Rank_t *, gex_Rank_t *, gex_Rank_t *));
  gex_Client_t c;
  gex_EP_t e;
  gex_TM_t t;
  CALL(int, gex_Client_Init(&c, &e, &t, "NAME", (int *)0, (char ***)0, (gex_Flags_t)0));
  FN(void, gex_Client_SetCData, (gex_Client_t, const void *));
  FN(void *, gex_Client_QueryCData, (gex_Client_t));
  FN(gex_Flags_t, gex_Client_QueryFlags, (gex_Client_t));
  FN(const char *, gex_Client_QueryName, (gex_Client_t));
  FN(void, gex_Segment_SetCData, (gex_Segment_t, const void *));
  FN(void *, gex_Segment_QueryCData, (gex_Segment_t));
  FN(gex_Client_t, gex_Segment_QueryClient, (gex_Segment_t));
  FN(gex_Flags_t, gex_Segment_QueryFlags, (gex_Segment_t));
  FN(void *, gex_Segment_QueryAddr, (gex_Segment_t));
  FN(uintptr_t, gex_Segment_QuerySize, (gex_Segment_t));
  FN(int, gex_Segment_Attach, (gex_Segment_t *, gex_TM_t, uintptr_t));
  FN(int, gex_Segment_Create, (gex_Segment_t *, gex_Client_t, gex_Addr_t, uintptr_t, gex_MK_t, gex_Flags_t));
  FN(void, gex_Segment_Destroy, (gex_Segment_t, gex_Flags_t));
  FN(int, gex_Segment_QueryBound, (gex_TM_t, gex_Rank_t, void **, void **, uintptr_t *));
  FN(void, gex_TM_SetCData, (gex_TM_t, const void *));
  FN(void *, gex_TM_QueryCData, (gex_TM_t));
  FN(gex_Client_t, gex_TM_QueryClient, (gex_TM_t));
  FN(gex_EP_t, gex_TM_QueryEP, (gex_TM_t));
  FN(gex_Flags_t, gex_TM_QueryFlags, (gex_TM_t));
  FN(gex_Rank_t, gex_TM_QueryRank, (gex_TM_t));
  FN(gex_Rank_t, gex_TM_QuerySize, (gex_TM_t));
  FN(size_t, gex_TM_Split, (gex_TM_t *, gex_TM_t, int, int, void *, size_t, gex_Flags_t));
  FN(size_t, gex_TM_Create, (gex_TM_t *, size_t, gex_TM_t, gex_EP_Location_t *, size_t, gex_Addr_t *, size_t, gex_Flags_t));
  FN(int, gex_TM_Destroy, (gex_TM_t, gex_Memvec_t *, gex_Flags_t));
  FN(gex_TM_t, gex_TM_Pair, (gex_EP_t, gex_EP_Index_t));
  FN(gex_Rank_t, gex_TM_TranslateRankToJobrank, (gex_TM_t, gex_Rank_t));
  FN(gex_Rank_t, gex_TM_TranslateJobrankToRank, (gex_TM_t, gex_Rank_t));
  FN(gex_EP_Location_t, gex_TM_TranslateRankToEP, (gex_TM_t, gex_Rank_t, gex_Flags_t));
  FN(void, gex_EP_SetCData, (gex_EP_t, const void *));
  FN(void *, gex_EP_QueryCData, (gex_EP_t));
  FN(gex_Client_t, gex_EP_QueryClient, (gex_EP_t));
  FN(gex_Flags_t, gex_EP_QueryFlags, (gex_EP_t));
  FN(gex_Segment_t, gex_EP_QuerySegment, (gex_EP_t));
  FN(gex_EP_Index_t, gex_EP_QueryIndex, (gex_EP_t));
  FN(gex_EP_Capabilities_t, gex_EP_QueryCapabilities, (gex_EP_t));
  FN(gex_Event_t, gex_EP_QueryBoundSegmentNB, (gex_TM_t, gex_Rank_t, void **, void **, uintptr_t *, gex_Flags_t));
  FN(int, gex_EP_PublishBoundSegment, (gex_TM_t, gex_EP_t *, size_t, gex_Flags_t));
  FN(int, gex_EP_RegisterHandlers, (gex_EP_t, gex_AM_Entry_t *, size_t));
  FN(int, gex_EP_Create, (gex_EP_t *, gex_Client_t, gex_EP_Capabilities_t, gex_Flags_t));
  FN(void, gex_EP_Destroy, (gex_EP_t, gex_Flags_t));
  FN(int, gex_EP_BindSegment, (gex_EP_t, gex_Segment_t, gex_Flags_t));
  FN(int, gex_MK_Create, (gex_MK_t *, gex_Client_t, const gex_MK_Create_args_t *, gex_Flags_t));
  FN(void, gex_MK_Destroy, (gex_MK_t, gex_Flags_t));
  FN(void, gex_HSL_Init, (gex_HSL_t *));
  FN(void, gex_HSL_Destroy, (gex_HSL_t *));
  FN(void, gex_HSL_Lock, (gex_HSL_t *));
  FN(void, gex_HSL_Unlock, (gex_HSL_t *));
  FN(int, gex_HSL_Trylock, (gex_HSL_t *));
}

static void messages(void) {
  FN(unsigned int, gex_AM_MaxArgs, (void));
#define MAX(name) FN(size_t, gex_AM_Max##name, (gex_TM_t, gex_Rank_t, const gex_Event_t *, gex_Flags_t, unsigned int))
  MAX(RequestLong); MAX(ReplyLong); MAX(RequestMedium); MAX(ReplyMedium);
  FN(size_t, gex_Token_MaxReplyLong, (gex_Token_t, const gex_Event_t *, gex_Flags_t, unsigned int));
  FN(size_t, gex_Token_MaxReplyMedium, (gex_Token_t, const gex_Event_t *, gex_Flags_t, unsigned int));
#define LUB(name) FN(size_t, gex_AM_LUB##name, (void))
  LUB(RequestLong); LUB(ReplyLong); LUB(RequestMedium); LUB(ReplyMedium);
  FN(gex_TI_t, gex_Token_Info, (gex_Token_t, gex_Token_Info_t *, gex_TI_t));
#define AM(M)                                                                                                           \
  FN(int, gex_AM_RequestShort##M, (gex_TM_t, gex_Rank_t, gex_AM_Index_t, gex_Flags_t P##M));                            \
  FN(int, gex_AM_RequestMedium##M,                                                                                      \
     (gex_TM_t, gex_Rank_t, gex_AM_Index_t, const void *, size_t, gex_Event_t *, gex_Flags_t P##M));                    \
  FN(int, gex_AM_RequestLong##M,                                                                                        \
     (gex_TM_t, gex_Rank_t, gex_AM_Index_t, const void *, size_t, void *, gex_Event_t *, gex_Flags_t P##M));            \
  FN(int, gex_AM_ReplyShort##M, (gex_Token_t, gex_AM_Index_t, gex_Flags_t P##M));                                       \
  FN(int, gex_AM_ReplyMedium##M, (gex_Token_t, gex_AM_Index_t, const void *, size_t, gex_Event_t *, gex_Flags_t P##M)); \
  FN(int, gex_AM_ReplyLong##M,                                                                                          \
     (gex_Token_t, gex_AM_Index_t, const void *, size_t, void *, gex_Event_t *, gex_Flags_t P##M));                     \
  FN(void, gex_AM_CommitRequestMedium##M, (gex_AM_SrcDesc_t, gex_AM_Index_t, size_t P##M));                              \
  FN(void, gex_AM_CommitReplyMedium##M, (gex_AM_SrcDesc_t, gex_AM_Index_t, size_t P##M));                                \
  FN(void, gex_AM_CommitRequestLong##M, (gex_AM_SrcDesc_t, gex_AM_Index_t, size_t, void *P##M));                         \
  FN(void, gex_AM_CommitReplyLong##M, (gex_AM_SrcDesc_t, gex_AM_Index_t, size_t, void *P##M));                           \
  FN(int, gex_AM_CommitRequestMedium##M##_v2, (gex_AM_SrcDesc_t, gex_AM_Index_t, size_t, gex_Flags_t P##M));            \
  FN(int, gex_AM_CommitReplyMedium##M##_v2, (gex_AM_SrcDesc_t, gex_AM_Index_t, size_t, gex_Flags_t P##M));              \
  FN(int, gex_AM_CommitRequestLong##M##_v2, (gex_AM_SrcDesc_t, gex_AM_Index_t, size_t, void *, gex_Flags_t P##M));      \
  FN(int, gex_AM_CommitReplyLong##M##_v2, (gex_AM_SrcDesc_t, gex_AM_Index_t, size_t, void *, gex_Flags_t P##M));        \
  FN(int, gasnet_AMRequestShort##M, (gasnet_node_t, gasnet_handler_t P##M));                                            \
  FN(int, gasnet_AMRequestMedium##M, (gasnet_node_t, gasnet_handler_t, void *, size_t P##M));                           \
  FN(int, gasnet_AMRequestLong##M, (gasnet_node_t, gasnet_handler_t, void *, size_t, void *P##M));                      \
  FN(int, gasnet_AMRequestLongAsync##M, (gasnet_node_t, gasnet_handler_t, void *, size_t, void *P##M));                 \
  FN(int, gasnet_AMReplyShort##M, (gasnet_token_t, gasnet_handler_t P##M));                                             \
  FN(int, gasnet_AMReplyMedium##M, (gasnet_token_t, gasnet_handler_t, void *, size_t P##M));                            \
  FN(int, gasnet_AMReplyLong##M, (gasnet_token_t, gasnet_handler_t, void *, size_t, void *P##M));
  EACH(AM)
  /* Without a number. */
  gex_TM_t t = tm;
  gex_Token_t token = 0;
  gex_AM_SrcDesc_t sd = GEX_AM_SRCDESC_NO_OP;
  void *p = &sd;
#define NONE
#define ALL_FORMS(CALLS) CALLS() CALLS(, 1) CALLS(, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
#define CALLS(...)                                                             \
  CALL(int, gex_AM_RequestShort(t, 0, 128, 0 __VA_ARGS__));                    \
  CALL(int, gex_AM_RequestMedium(t, 0, 128, p, 1, GEX_EVENT_NOW, 0 __VA_ARGS__));  \
  CALL(int, gex_AM_RequestLong(t, 0, 128, p, 1, p, GEX_EVENT_NOW, 0 __VA_ARGS__)); \
  CALL(int, gex_AM_ReplyShort(token, 128, 0 __VA_ARGS__));                     \
  CALL(int, gex_AM_ReplyMedium(token, 128, p, 1, GEX_EVENT_NOW, 0 __VA_ARGS__));   \
  CALL(int, gex_AM_ReplyLong(token, 128, p, 1, p, GEX_EVENT_NOW, 0 __VA_ARGS__));  \
  CALL(void, gex_AM_CommitRequestMedium(sd, 128, 1 __VA_ARGS__));               \
  CALL(void, gex_AM_CommitReplyMedium(sd, 128, 1 __VA_ARGS__));                 \
  CALL(void, gex_AM_CommitRequestLong(sd, 128, 1, p __VA_ARGS__));              \
  CALL(void, gex_AM_CommitReplyLong(sd, 128, 1, p __VA_ARGS__));                \
  CALL(int, gex_AM_CommitRequestMedium_v2(sd, 128, 1, 0 __VA_ARGS__));         \
  CALL(int, gex_AM_CommitReplyMedium_v2(sd, 128, 1, 0 __VA_ARGS__));           \
  CALL(int, gex_AM_CommitRequestLong_v2(sd, 128, 1, p, 0 __VA_ARGS__));        \
  CALL(int, gex_AM_CommitReplyLong_v2(sd, 128, 1, p, 0 __VA_ARGS__));          \
  CALL(int, gasnet_AMRequestShort(0, 128 __VA_ARGS__));                        \
  CALL(int, gasnet_AMRequestMedium(0, 128, p, 1 __VA_ARGS__));                 \
  CALL(int, gasnet_AMRequestLong(0, 128, p, 1, p __VA_ARGS__));                \
  CALL(int, gasnet_AMRequestLongAsync(0, 128, p, 1, p __VA_ARGS__));           \
  CALL(int, gasnet_AMReplyShort(token, 128 __VA_ARGS__));                      \
  CALL(int, gasnet_AMReplyMedium(token, 128, p, 1 __VA_ARGS__));               \
  CALL(int, gasnet_AMReplyLong(token, 128, p, 1, p __VA_ARGS__));
  ALL_FORMS(CALLS)
  macros -= 2 * 21; /* three calls, one name */
  (void)t, (void)token, (void)p;
  FN(gex_AM_SrcDesc_t, gex_AM_PrepareRequestMedium,
     (gex_TM_t, gex_Rank_t, const void *, size_t, size_t, gex_Event_t *, gex_Flags_t, unsigned int));
  FN(gex_AM_SrcDesc_t, gex_AM_PrepareReplyMedium, (gex_Token_t, const void *, size_t, size_t, gex_Event_t *, gex_Flags_t, unsigned int));
  FN(gex_AM_SrcDesc_t, gex_AM_PrepareRequestLong,
     (gex_TM_t, gex_Rank_t, const void *, size_t, size_t, void *, gex_Event_t *, gex_Flags_t, unsigned int));
  FN(gex_AM_SrcDesc_t, gex_AM_PrepareReplyLong,
     (gex_Token_t, const void *, size_t, size_t, void *, gex_Event_t *, gex_Flags_t, unsigned int));
#define CANCEL(name) FN(int, gex_AM_Cancel##name, (gex_AM_SrcDesc_t, gex_Flags_t))
  CANCEL(RequestMedium); CANCEL(RequestLong); CANCEL(ReplyMedium); CANCEL(ReplyLong);
  FN(void *, gex_AM_SrcDescAddr, (gex_AM_SrcDesc_t));
  FN(size_t, gex_AM_SrcDescSize, (gex_AM_SrcDesc_t));
}

static void extended(void) {
  FN(int, gex_RMA_PutBlocking, (gex_TM_t, gex_Rank_t, void *, const void *, size_t, gex_Flags_t));
  FN(int, gex_RMA_PutNBI, (gex_TM_t, gex_Rank_t, void *, const void *, size_t, gex_Event_t *, gex_Flags_t));
  FN(gex_Event_t, gex_RMA_PutNB, (gex_TM_t, gex_Rank_t, void *, const void *, size_t, gex_Event_t *, gex_Flags_t));
  FN(int, gex_RMA_GetBlocking, (gex_TM_t, void *, gex_Rank_t, void *, size_t, gex_Flags_t));
  FN(int, gex_RMA_GetNBI, (gex_TM_t, void *, gex_Rank_t, void *, size_t, gex_Flags_t));
  FN(gex_Event_t, gex_RMA_GetNB, (gex_TM_t, void *, gex_Rank_t, void *, size_t, gex_Flags_t));
  FN(gex_RMA_Value_t, gex_RMA_GetBlockingVal, (gex_TM_t, gex_Rank_t, void *, size_t, gex_Flags_t));
  FN(int, gex_RMA_PutBlockingVal, (gex_TM_t, gex_Rank_t, void *, gex_RMA_Value_t, size_t, gex_Flags_t));
  FN(int, gex_RMA_PutNBIVal, (gex_TM_t, gex_Rank_t, void *, gex_RMA_Value_t, size_t, gex_Flags_t));
  FN(gex_Event_t, gex_RMA_PutNBVal, (gex_TM_t, gex_Rank_t, void *, gex_RMA_Value_t, size_t, gex_Flags_t));
  FN(void, gex_NBI_BeginAccessRegion, (gex_Flags_t));
  FN(gex_Event_t, gex_NBI_EndAccessRegion, (gex_Flags_t));
  FN(int, gex_NBI_Test, (gex_EC_t, gex_Flags_t));
  FN(void, gex_NBI_Wait, (gex_EC_t, gex_Flags_t));
  FN(int, gex_Event_Test, (gex_Event_t));
  FN(void, gex_Event_Wait, (gex_Event_t));
  FN(int, gex_Event_TestSome, (gex_Event_t *, size_t, gex_Flags_t));
  FN(void, gex_Event_WaitSome, (gex_Event_t *, size_t, gex_Flags_t));
  FN(int, gex_Event_TestAll, (gex_Event_t *, size_t, gex_Flags_t));
  FN(void, gex_Event_WaitAll, (gex_Event_t *, size_t, gex_Flags_t));
  FN(gex_Event_t, gex_Event_QueryLeaf, (gex_Event_t, gex_EC_t));
  FN(void, gex_AD_Create, (gex_AD_t *, gex_TM_t, gex_DT_t, gex_OP_t, gex_Flags_t));
  FN(void, gex_AD_Destroy, (gex_AD_t));
  FN(gex_Flags_t, gex_AD_QueryFlags, (gex_AD_t));
  FN(gex_TM_t, gex_AD_QueryTM, (gex_AD_t));
  FN(gex_DT_t, gex_AD_QueryDT, (gex_AD_t));
  FN(gex_OP_t, gex_AD_QueryOps, (gex_AD_t));
  FN(void, gex_AD_SetCData, (gex_AD_t, const void *));
  FN(void *, gex_AD_QueryCData, (gex_AD_t));
#define AD(name, T)                                                                                                 \
  FN(gex_Event_t, gex_AD_OpNB_##name, (gex_AD_t, T *, gex_Rank_t, void *, gex_OP_t, T, T, gex_Flags_t));            \
  FN(int, gex_AD_OpNBI_##name, (gex_AD_t, T *, gex_Rank_t, void *, gex_OP_t, T, T, gex_Flags_t));
  EACH_TYPE(AD)
#define VIS(KIND, R)                                                                                                            \
  FN(R, gex_VIS_VectorGet##KIND, (gex_TM_t, size_t, gex_Memvec_t const[], gex_Rank_t, size_t, gex_Memvec_t const[], gex_Flags_t)); \
  FN(R, gex_VIS_VectorPut##KIND, (gex_TM_t, gex_Rank_t, size_t, gex_Memvec_t const[], size_t, gex_Memvec_t const[], gex_Flags_t)); \
  FN(R, gex_VIS_IndexedGet##KIND,                                                                                               \
     (gex_TM_t, size_t, void *const[], size_t, gex_Rank_t, size_t, void *const[], size_t, gex_Flags_t));                        \
  FN(R, gex_VIS_IndexedPut##KIND,                                                                                               \
     (gex_TM_t, gex_Rank_t, size_t, void *const[], size_t, size_t, void *const[], size_t, gex_Flags_t));                        \
  FN(R, gex_VIS_StridedGet##KIND,                                                                                               \
     (gex_TM_t, void *, const ptrdiff_t[], gex_Rank_t, void *, const ptrdiff_t[], size_t, const size_t[], size_t, gex_Flags_t)); \
  FN(R, gex_VIS_StridedPut##KIND,                                                                                               \
     (gex_TM_t, gex_Rank_t, void *, const ptrdiff_t[], void *, const ptrdiff_t[], size_t, const size_t[], size_t, gex_Flags_t));
  EACH_KIND(VIS)
  FN(void, gex_VIS_SetPeerCompletionHandler, (gex_AM_Index_t, const void *, size_t, gex_Flags_t));
  FN(gex_Event_t, gex_Coll_BarrierNB, (gex_TM_t, gex_Flags_t));
  FN(void, gex_Coll_BarrierBlocking, (gex_TM_t, gex_Flags_t));
  FN(void, gasnet_coll_barrier_notify, (gasnet_team_handle_t, int, int));
  FN(int, gasnet_coll_barrier_wait, (gasnet_team_handle_t, int, int));
  FN(int, gasnet_coll_barrier_try, (gasnet_team_handle_t, int, int));
  FN(int, gasnet_coll_barrier, (gasnet_team_handle_t, int, int));
  FN(gex_Event_t, gex_Coll_BroadcastNB, (gex_TM_t, gex_Rank_t, void *, const void *, size_t, gex_Flags_t));
  FN(gex_Event_t, gex_Coll_ReduceToOneNB,
     (gex_TM_t, gex_Rank_t, void *, const void *, gex_DT_t, size_t, size_t, gex_OP_t, gex_Coll_ReduceFn_t, void *, gex_Flags_t));
  FN(gex_Event_t, gex_Coll_ReduceToAllNB,
     (gex_TM_t, void *, const void *, gex_DT_t, size_t, size_t, gex_OP_t, gex_Coll_ReduceFn_t, void *, gex_Flags_t));
}

static void gasnet1(void) {
  void *p = &macros;
  gasnet_node_t node = 0;
  gasnet_handle_t handles[2] = {GASNET_INVALID_HANDLE, GASNET_INVALID_HANDLE};
  gasnet_register_value_t value = 0;
  gasnet_valget_handle_t valget;
  gasnet_hsl_t lock;
  memset(&valget, 0, sizeof valget);
  CALL(int, gasnet_init((int *)0, (char ***)0));
  FN(int, gasnet_attach, (gasnet_handlerentry_t *, int, uintptr_t, uintptr_t));
  FN(void, gasnet_QueryGexObjects, (gex_Client_t *, gex_EP_t *, gex_TM_t *, gex_Segment_t *));
  FN(uintptr_t, gasnet_getMaxLocalSegmentSize, (void));
  FN(uintptr_t, gasnet_getMaxGlobalSegmentSize, (void));
  CALL(void, gasnet_exit(0));
  FN(gasnet_node_t, gasnet_mynode, (void));
  FN(gasnet_node_t, gasnet_nodes, (void));
  FN(int, gasnet_getSegmentInfo, (gasnet_seginfo_t *, int));
  FN(int, gasnet_getNodeInfo, (gasnet_nodeinfo_t *, int));
  FIELD(gasnet_node_t, gasnet_nodeinfo_t, host);
  FIELD(gasnet_node_t, gasnet_nodeinfo_t, supernode);
  FIELD(intptr_t, gasnet_nodeinfo_t, offset);
#define LISTS(KIND, R)                                                                                                     \
  FN(R, gasnet_putv##KIND, (gasnet_node_t, size_t, gasnet_memvec_t const[], size_t, gasnet_memvec_t const[]));             \
  FN(R, gasnet_getv##KIND, (size_t, gasnet_memvec_t const[], gasnet_node_t, size_t, gasnet_memvec_t const[]));             \
  FN(R, gasnet_puti##KIND, (gasnet_node_t, size_t, void *const[], size_t, size_t, void *const[], size_t));                 \
  FN(R, gasnet_geti##KIND, (size_t, void *const[], size_t, gasnet_node_t, size_t, void *const[], size_t));                 \
  FN(R, gasnet_puts##KIND, (gasnet_node_t, void *, const size_t[], void *, const size_t[], const size_t[], size_t));       \
  FN(R, gasnet_gets##KIND, (void *, const size_t[], gasnet_node_t, void *, const size_t[], const size_t[], size_t));
  LISTS(_bulk, void) LISTS(_nb_bulk, gasnet_handle_t) LISTS(_nbi_bulk, void)
  FN(char *, gasnet_getenv, (const char *));
  FN(char *, gasnet_ErrorName, (int));
  FN(char *, gasnet_ErrorDesc, (int));
  FN(size_t, gasnet_AMMaxArgs, (void));
  FN(size_t, gasnet_AMMaxMedium, (void));
  FN(size_t, gasnet_AMMaxLongRequest, (void));
  FN(size_t, gasnet_AMMaxLongReply, (void));
  FN(int, gasnet_AMPoll, (void));
  CALL(int, gex_AM_Poll());
  FN(int, gasnet_AMGetMsgSource, (gasnet_token_t, gasnet_node_t *));
  FN(int, gasnet_set_waitmode, (int));
  FN(void, gasnet_barrier_notify, (int, int));
  FN(int, gasnet_barrier_wait, (int, int));
  FN(int, gasnet_barrier_try, (int, int));
  FN(int, gasnet_barrier, (int, int));
  FN(int, gasnet_barrier_result, (int *));
  CALL(void, gasnet_hold_interrupts());
  CALL(void, gasnet_resume_interrupts());
  CALL(void, gasnet_hsl_init(&lock));
  CALL(void, gasnet_hsl_destroy(&lock));
  CALL(void, gasnet_hsl_lock(&lock));
  CALL(void, gasnet_hsl_unlock(&lock));
  CALL(int, gasnet_hsl_trylock(&lock));
  CALL(void, gasnet_put(node, p, p, 1));
  CALL(void, gasnet_put_bulk(node, p, p, 1));
  CALL(void, gasnet_put_nbi(node, p, p, 1));
  CALL(void, gasnet_put_nbi_bulk(node, p, p, 1));
  CALL(gasnet_handle_t, gasnet_put_nb(node, p, p, 1));
  CALL(gasnet_handle_t, gasnet_put_nb_bulk(node, p, p, 1));
  CALL(void, gasnet_get(p, node, p, 1));
  CALL(void, gasnet_get_bulk(p, node, p, 1));
  CALL(void, gasnet_get_nbi(p, node, p, 1));
  CALL(void, gasnet_get_nbi_bulk(p, node, p, 1));
  CALL(gasnet_handle_t, gasnet_get_nb(p, node, p, 1));
  CALL(gasnet_handle_t, gasnet_get_nb_bulk(p, node, p, 1));
  FN(void, gasnet_memset, (gasnet_node_t, void *, int, size_t));
  FN(void, gasnet_memset_nbi, (gasnet_node_t, void *, int, size_t));
  FN(gasnet_handle_t, gasnet_memset_nb, (gasnet_node_t, void *, int, size_t));
  CALL(void, gasnet_put_val(node, p, value, 1));
  CALL(void, gasnet_put_nbi_val(node, p, value, 1));
  CALL(gasnet_handle_t, gasnet_put_nb_val(node, p, value, 1));
  CALL(gasnet_register_value_t, gasnet_get_val(node, p, 1));
  CALL(gasnet_valget_handle_t, gasnet_get_nb_val(node, p, 1));
  CALL(gasnet_register_value_t, gasnet_wait_syncnb_valget(valget));
  CALL(void, gasnet_wait_syncnb(handles[0]));
  CALL(int, gasnet_try_syncnb(handles[0]));
  CALL(void, gasnet_wait_syncnb_all(handles, 2));
  CALL(int, gasnet_try_syncnb_all(handles, 2));
  CALL(void, gasnet_wait_syncnb_some(handles, 2));
  CALL(int, gasnet_try_syncnb_some(handles, 2));
  CALL(void, gasnet_wait_syncnbi_gets());
  CALL(void, gasnet_wait_syncnbi_puts());
  CALL(void, gasnet_wait_syncnbi_all());
  CALL(int, gasnet_try_syncnbi_gets());
  CALL(int, gasnet_try_syncnbi_puts());
  CALL(int, gasnet_try_syncnbi_all());
  CALL(void, gasnet_begin_nbi_accessregion());
  CALL(gasnet_handle_t, gasnet_end_nbi_accessregion());
  CALL(gasnet_threadinfo_t, GASNET_GET_THREADINFO());
  (void)p, (void)node, (void)handles, (void)value, (void)valget;
}

static void posted(gasnet_threadinfo_t info) {
  GASNET_POST_THREADINFO(info);
  CHECK(!gasnet_set_waitmode(GASNET_WAIT_SPINBLOCK));
}

/* The objects of the program for C and for C++. */
GASNETT_BEGIN_EXTERNC
GASNETT_EXTERNC int of_c(void);
int of_c(void) { return 1; }
static int users(int fd) { return fd + 1; }
GASNETT_END_EXTERNC
gasnett_backtrace_type_t gasnett_backtrace_user = {"USER", users, 1};

static void beside_the_specification(void) {
  char text[512], *long_text;
  const char *const all = "GEX_OP_AND|GEX_OP_FCAS|GEX_OP_USER_NC|0x1000";
  const gex_OP_t mask = GEX_OP_AND | GEX_OP_FCAS | GEX_OP_USER_NC | 1u << 12;
  void *list[3] = {text, text + 1, text + 2};
  gex_Memvec_t pieces[2] = {{text, 3}, {NULL, (size_t)-1}};
  const ptrdiff_t strides[2] = {8, -16};
  const size_t counts[2] = {2, 3};
  CHECK(!strcmp(_STRINGIFY(GASNETT_PAGESIZE), "4096") && _CONCAT(1, 2) == 12 && of_c() && users(0));
  CHECK(snprintf(text, sizeof text, "%" PRIuSZ " %" PRIdSZ " %" PRIxSZ, (size_t)3, (ptrdiff_t)-3, (size_t)30) == 7 && !strcmp(text, "3 -3 1e"));
  CHECK(gasnett_tick_granularityus() > 0 && gasnett_tick_overheadus() > 0 && gasnett_gettimeofday_us() > (uint64_t)1000000 * 1000000);
  CHECK(*gasnett_exe_name() == '/' && !access(gasnett_exe_name(), X_OK) && !GASNETT_TRACE_GET_TRACELOCAL());
  GASNETT_TRACE_SET_TRACELOCAL(1);
  gasnett_assume(of_c());
  CHECK((uint64_t)GASNETT_MAX_THREADS == gex_System_QueryMaxThreads());
  FN(void, _gasneti_threadkey_init, (void *));
  FN(void, _gasnett_trace_printf_noop, (const char *, ...));
  memset(gasnett_mmap(100000), 1, 100000);
  CHECK(strlen(GASNET_CORE_VERSION_STR) && strlen(GASNET_EXTENDED_VERSION_STR));
  /* Bytes that are needed, with and without a buffer. */
  CHECK(gasnett_format_op(NULL, mask) != 0 && gasnett_format_op(text, mask) == gasnett_format_op(NULL, mask));
  CHECK(strlen(text) + 1 == gasnett_format_op(NULL, mask) && strlen(text) <= strlen(all) && strstr(text, "GEX_OP_FCAS|GEX_OP_USER_NC"));
  CHECK(gasnett_format_dt(text, GEX_DT_I32 | GEX_DT_DBL) == sizeof "GEX_DT_I32|GEX_DT_DBL" && !strcmp(text, "GEX_DT_I32|GEX_DT_DBL"));
  CHECK(gasnett_format_ti(text, GEX_TI_ENTRY) == sizeof "GEX_TI_ENTRY" && gasnett_format_ti(NULL, 0) == 2);
  long_text = (char *)malloc(gasnett_format_memveclist_bufsz(2));
  gasnett_format_memveclist(long_text, 2, pieces);
  CHECK(strlen(long_text) < gasnett_format_memveclist_bufsz(2) && strstr(long_text, "+18446744073709551615"));
  gasnett_format_addrlist(text, 3, list, 9);
  CHECK(strlen(text) < gasnett_format_addrlist_bufsz(3) && strstr(text, "3 entries of 9"));
  gasnett_format_putsgets(text, NULL, tm, me, text, strides, text, strides, 4, counts, 2);
  CHECK(strlen(text) < gasnett_format_putsgets_bufsz(2) && strstr(text, "3 by -16"));
  free(long_text);
}

/* What the headers read of the library, as that asserts it. */
static void block(void) {
  CHECK(sizeof hamr_gex_mapped[0] == 64 && sizeof hamr_gex_may_be_restricted == 8);
  CHECK(offsetof(struct hamr_gex_mapped, owner) == 0 && offsetof(struct hamr_gex_mapped, words) == 8);
  CHECK(offsetof(struct hamr_gex_mapped, local) == 16 && offsetof(struct hamr_gex_mapped, size) == 24);
  CHECK(offsetof(struct hamr_gex_tm, rank) == 0 && offsetof(struct hamr_gex_tm, size) == 4);
  CHECK(offsetof(struct hamr_gex_tm, mapped) == 8 && sizeof hamr_gex_all == 8 + 64 * sizeof(void *));
  CHECK(offsetof(struct hamr_gex_ad, data_type) == 0 && offsetof(struct hamr_gex_ad, ops) == 4);
  CHECK(offsetof(struct hamr_gex_ad, jobranks) == 8 && offsetof(struct hamr_gex_ad, size) == 16);
}

int main(int argc, char **argv) {
  GASNET_BEGIN_FUNCTION();
  start(&argc, &argv);
  beside_the_specification();
  block();
  all_types(), all_constants(), objects(), messages(), extended(), gasnet1();
  posted(GASNET_GET_THREADINFO());
  GASNET_BLOCKUNTIL(1);
  macros += 3;
  CHECK(!gasnet_barrier(1, 0) && !gex_AM_Poll());
  gasnet_hold_interrupts();
  gasnet_resume_interrupts();
  printf("%d functions, %d macros, %d constants, %d types, %d fields\n", functions, macros, constants, types, fields);
  return done();
}
