/* Types and constants of GASNet-EX that need no function. */
#ifndef HAMR_GASNET_FWD_H
#define HAMR_GASNET_FWD_H

/* Under `-std=c99` the C library hides clocks, locks and the environment, unless it is asked. */
#if !defined(_GNU_SOURCE) && !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE 1
#endif

#include <stddef.h>
#include <stdint.h>

typedef uint32_t gex_Rank_t;
#define GEX_RANK_INVALID ((gex_Rank_t)~(gex_Rank_t)0)

typedef uint16_t gex_EP_Index_t;
typedef void *gex_Addr_t;
typedef uint32_t gex_Flags_t;
typedef uint8_t gex_AM_Index_t;
typedef int32_t gex_AM_Arg_t;
typedef uint64_t gex_RMA_Value_t;
#define SIZEOF_GEX_RMA_VALUE_T 8

typedef struct hamr_gex_event *gex_Event_t;
#define GEX_EVENT_INVALID ((gex_Event_t)(uintptr_t)0)
#define GEX_EVENT_NO_OP ((gex_Event_t)(uintptr_t)1)
#define GEX_EVENT_NOW ((gex_Event_t *)(uintptr_t)1)
#define GEX_EVENT_DEFER ((gex_Event_t *)(uintptr_t)2)
#define GEX_EVENT_GROUP ((gex_Event_t *)(uintptr_t)3)

/* Calls that start communication. */
#define GEX_FLAG_IMMEDIATE ((gex_Flags_t)1u << 0)
#define GEX_FLAG_LC_COPY_YES ((gex_Flags_t)1u << 1)
#define GEX_FLAG_LC_COPY_NO ((gex_Flags_t)1u << 2)
#define GEX_FLAG_PEER_NEVER_SELF ((gex_Flags_t)1u << 3)
#define GEX_FLAG_PEER_NEVER_NBRHD ((gex_Flags_t)1u << 4)
#define GEX_FLAG_SELF_SEG_UNKNOWN ((gex_Flags_t)1u << 5)
#define GEX_FLAG_SELF_SEG_SOME ((gex_Flags_t)1u << 6)
#define GEX_FLAG_SELF_SEG_BOUND ((gex_Flags_t)1u << 7)
#define GEX_FLAG_SELF_SEG_OFFSET ((gex_Flags_t)1u << 8)
#define GEX_FLAG_PEER_SEG_UNKNOWN ((gex_Flags_t)1u << 9)
#define GEX_FLAG_PEER_SEG_SOME ((gex_Flags_t)1u << 10)
#define GEX_FLAG_PEER_SEG_BOUND ((gex_Flags_t)1u << 11)
#define GEX_FLAG_PEER_SEG_OFFSET ((gex_Flags_t)1u << 12)
#define GEX_FLAG_IMMEDIATE_COMMIT ((gex_Flags_t)1u << 13)
#define GEX_FLAG_AM_PREPARE_LEAST_CLIENT ((gex_Flags_t)1u << 14)
#define GEX_FLAG_AM_PREPARE_LEAST_ALLOC ((gex_Flags_t)1u << 15)
#define GEX_FLAG_ENABLE_LEAF_LC ((gex_Flags_t)1u << 16)
#define GEX_FLAG_RANK_IS_JOBRANK ((gex_Flags_t)1u << 17)
/* Atomic domains. */
#define GEX_FLAG_AD_MY_RANK ((gex_Flags_t)1u << 18)
#define GEX_FLAG_AD_MY_NBRHD ((gex_Flags_t)1u << 19)
#define GEX_FLAG_AD_ACQ ((gex_Flags_t)1u << 20)
#define GEX_FLAG_AD_REL ((gex_Flags_t)1u << 21)
#define GEX_FLAG_AD_FAVOR_MY_RANK ((gex_Flags_t)1u << 22)
#define GEX_FLAG_AD_FAVOR_MY_NBRHD ((gex_Flags_t)1u << 23)
#define GEX_FLAG_AD_FAVOR_REMOTE ((gex_Flags_t)1u << 24)
/* Teams, clients, endpoints. */
#define GEX_FLAG_TM_SCRATCH_SIZE_MIN ((gex_Flags_t)1u << 0)
#define GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED ((gex_Flags_t)1u << 1)
#define GEX_FLAG_TM_GLOBAL_SCRATCH ((gex_Flags_t)1u << 2)
#define GEX_FLAG_TM_LOCAL_SCRATCH ((gex_Flags_t)1u << 3)
#define GEX_FLAG_TM_SYMMETRIC_SCRATCH ((gex_Flags_t)1u << 4)
#define GEX_FLAG_TM_NO_SCRATCH ((gex_Flags_t)1u << 5)
#define GEX_FLAG_SCRATCH_SEG_OFFSET ((gex_Flags_t)1u << 6)
#define GEX_FLAG_GLOBALLY_QUIESCED ((gex_Flags_t)1u << 7)
#define GEX_FLAG_USES_GASNET1 ((gex_Flags_t)1u << 8)
#define GEX_FLAG_DEFER_THREADS ((gex_Flags_t)1u << 9)
#define GEX_FLAG_HINT_ACCEL_AD ((gex_Flags_t)1u << 10)
#define GEX_FLAG_HINT_ACCEL_COLL ((gex_Flags_t)1u << 11)
#define GEX_FLAG_HINT_ACCEL_ALL (GEX_FLAG_HINT_ACCEL_AD | GEX_FLAG_HINT_ACCEL_COLL)
/* Handlers: one of each group. */
#define GEX_FLAG_AM_SHORT ((gex_Flags_t)1u)
#define GEX_FLAG_AM_MEDIUM ((gex_Flags_t)2u)
#define GEX_FLAG_AM_LONG ((gex_Flags_t)4u)
#define GEX_FLAG_AM_MEDLONG ((gex_Flags_t)6u)
#define GEX_FLAG_AM_REQUEST ((gex_Flags_t)8u)
#define GEX_FLAG_AM_REPLY ((gex_Flags_t)16u)
#define GEX_FLAG_AM_REQREP ((gex_Flags_t)24u)

typedef uint32_t gex_EP_Capabilities_t;
#define GEX_EP_CAPABILITY_RMA ((gex_EP_Capabilities_t)1u)
#define GEX_EP_CAPABILITY_AM ((gex_EP_Capabilities_t)2u)
#define GEX_EP_CAPABILITY_VIS ((gex_EP_Capabilities_t)4u)
#define GEX_EP_CAPABILITY_COLL ((gex_EP_Capabilities_t)8u)
#define GEX_EP_CAPABILITY_AD ((gex_EP_Capabilities_t)16u)
#define GEX_EP_CAPABILITY_ALL ((gex_EP_Capabilities_t)31u)

/* Preprocessor constants, so that programs can use them in #if. */
typedef uint32_t gex_DT_t;
#define GEX_DT_I32 0x01
#define GEX_DT_U32 0x02
#define GEX_DT_I64 0x04
#define GEX_DT_U64 0x08
#define GEX_DT_FLT 0x10
#define GEX_DT_DBL 0x20
#define GEX_DT_USER 0x40

typedef uint32_t gex_OP_t;
#define GEX_OP_ADD 0x00000001
#define GEX_OP_MULT 0x00000002
#define GEX_OP_MIN 0x00000004
#define GEX_OP_MAX 0x00000008
#define GEX_OP_SUB 0x00000010
#define GEX_OP_INC 0x00000020
#define GEX_OP_DEC 0x00000040
#define GEX_OP_AND 0x00000080
#define GEX_OP_OR 0x00000100
#define GEX_OP_XOR 0x00000200
#define GEX_OP_SET 0x00000400
#define GEX_OP_CAS 0x00000800
#define GEX_OP_FADD 0x00001000
#define GEX_OP_FMULT 0x00002000
#define GEX_OP_FMIN 0x00004000
#define GEX_OP_FMAX 0x00008000
#define GEX_OP_FSUB 0x00010000
#define GEX_OP_FINC 0x00020000
#define GEX_OP_FDEC 0x00040000
#define GEX_OP_FAND 0x00080000
#define GEX_OP_FOR 0x00100000
#define GEX_OP_FXOR 0x00200000
#define GEX_OP_SWAP 0x00400000
#define GEX_OP_FCAS 0x00800000
#define GEX_OP_CSWAP GEX_OP_FCAS
#define GEX_OP_GET 0x01000000
#define GEX_OP_USER 0x02000000
#define GEX_OP_USER_NC 0x04000000
/* An operation's fetching form is 12 bits above it. */
#define GEX_OP_TO_FETCHING(op) ((gex_OP_t)(op) << 12)
#define GEX_OP_TO_NONFETCHING(op) ((gex_OP_t)(op) >> 12)

#endif
