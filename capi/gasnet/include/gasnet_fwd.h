/* Types and constants of GASNet-EX that need no function. Numbers are for #if, too, and are those that programs have
 * compiled in; one bit may mean different things in different calls. */
#ifndef _INCLUDED_GASNET_FWD_H
#define _INCLUDED_GASNET_FWD_H

/* Under `-std=c99` the C library hides clocks, locks and the environment, unless it is asked. */
#if !defined(_GNU_SOURCE) && !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE 1
#endif

#include <stddef.h>
#include <stdint.h>

typedef uint32_t gex_Rank_t;
#define GEX_RANK_INVALID 0xffffffffu

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
#define GEX_FLAG_IMMEDIATE (1u << 0)
#define GEX_FLAG_LC_COPY_YES (1u << 1)
#define GEX_FLAG_LC_COPY_NO (1u << 2)
#define GEX_FLAG_SELF_SEG_UNKNOWN (1u << 3)
#define GEX_FLAG_SELF_SEG_SOME (1u << 4)
#define GEX_FLAG_SELF_SEG_BOUND (1u << 5)
#define GEX_FLAG_SELF_SEG_OFFSET (1u << 6)
#define GEX_FLAG_PEER_SEG_UNKNOWN (1u << 7)
#define GEX_FLAG_PEER_SEG_SOME (1u << 8)
#define GEX_FLAG_PEER_SEG_BOUND (1u << 9)
#define GEX_FLAG_PEER_SEG_OFFSET (1u << 10)
#define GEX_FLAG_AM_PREPARE_LEAST_CLIENT (1u << 11)
#define GEX_FLAG_AM_PREPARE_LEAST_ALLOC (1u << 12)
#define GEX_FLAG_ENABLE_LEAF_LC (1u << 11)
#define GEX_FLAG_RANK_IS_JOBRANK (1u << 13)
#define GEX_FLAG_PEER_NEVER_SELF (1u << 14)
#define GEX_FLAG_PEER_NEVER_NBRHD (1u << 15)
/* Operations of atomic domains, and their creation. */
#define GEX_FLAG_AD_REL (1u << 1)
#define GEX_FLAG_AD_ACQ (1u << 2)
#define GEX_FLAG_AD_MY_RANK (1u << 11)
#define GEX_FLAG_AD_MY_NBRHD (1u << 12)
#define GEX_FLAG_AD_FAVOR_MY_RANK (1u << 0)
#define GEX_FLAG_AD_FAVOR_MY_NBRHD (1u << 1)
#define GEX_FLAG_AD_FAVOR_REMOTE (1u << 2)
/* Teams. */
#define GEX_FLAG_TM_SCRATCH_SIZE_MIN (1u << 0)
#define GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED (1u << 1)
#define GEX_FLAG_TM_GLOBAL_SCRATCH (1u << 2)
#define GEX_FLAG_TM_LOCAL_SCRATCH (1u << 3)
#define GEX_FLAG_TM_SYMMETRIC_SCRATCH (1u << 4)
#define GEX_FLAG_TM_NO_SCRATCH (1u << 5)
#define GEX_FLAG_SCRATCH_SEG_OFFSET (1u << 6)
#define GEX_FLAG_GLOBALLY_QUIESCED (1u << 13)
/* Clients, endpoints. */
#define GEX_FLAG_USES_GASNET1 (1u << 0)
#define GEX_FLAG_DEFER_THREADS (1u << 1)
#define GEX_FLAG_HINT_ACCEL_AD (1u << 0)
#define GEX_FLAG_HINT_ACCEL_COLL (1u << 1)
#define GEX_FLAG_HINT_ACCEL_ALL (GEX_FLAG_HINT_ACCEL_AD | GEX_FLAG_HINT_ACCEL_COLL)
/* Handlers: one of each group. */
#define GEX_FLAG_AM_SHORT 1u
#define GEX_FLAG_AM_MEDIUM 2u
#define GEX_FLAG_AM_LONG 4u
#define GEX_FLAG_AM_MEDLONG 6u
#define GEX_FLAG_AM_REQUEST 8u
#define GEX_FLAG_AM_REPLY 16u
#define GEX_FLAG_AM_REQREP 24u

typedef uint32_t gex_EP_Capabilities_t;
#define GEX_EP_CAPABILITY_RMA 1u
#define GEX_EP_CAPABILITY_AM 2u
#define GEX_EP_CAPABILITY_VIS 4u
#define GEX_EP_CAPABILITY_COLL 8u
#define GEX_EP_CAPABILITY_AD 16u
#define GEX_EP_CAPABILITY_ALL 31u

typedef uint32_t gex_DT_t;
#define GEX_DT_I32 (1u << 0)
#define GEX_DT_U32 (1u << 1)
#define GEX_DT_I64 (1u << 2)
#define GEX_DT_U64 (1u << 3)
#define GEX_DT_FLT (1u << 4)
#define GEX_DT_DBL (1u << 5)
#define GEX_DT_USER (1u << 6)

typedef uint32_t gex_OP_t;
#define GEX_OP_AND (1u << 0)
#define GEX_OP_OR (1u << 1)
#define GEX_OP_XOR (1u << 2)
#define GEX_OP_ADD (1u << 3)
#define GEX_OP_SUB (1u << 4)
#define GEX_OP_MULT (1u << 5)
#define GEX_OP_MIN (1u << 6)
#define GEX_OP_MAX (1u << 7)
#define GEX_OP_INC (1u << 8)
#define GEX_OP_DEC (1u << 9)
#define GEX_OP_SET (1u << 10)
#define GEX_OP_CAS (1u << 11)
#define GEX_OP_FAND (1u << 15)
#define GEX_OP_FOR (1u << 16)
#define GEX_OP_FXOR (1u << 17)
#define GEX_OP_FADD (1u << 18)
#define GEX_OP_FSUB (1u << 19)
#define GEX_OP_FMULT (1u << 20)
#define GEX_OP_FMIN (1u << 21)
#define GEX_OP_FMAX (1u << 22)
#define GEX_OP_FINC (1u << 23)
#define GEX_OP_FDEC (1u << 24)
#define GEX_OP_SWAP (1u << 25)
#define GEX_OP_FCAS (1u << 26)
#define GEX_OP_CSWAP GEX_OP_FCAS
#define GEX_OP_GET (1u << 27)
#define GEX_OP_USER (1u << 30)
#define GEX_OP_USER_NC (1u << 31)
/* An operation's fetching form is 15 bits above it. */
#define GEX_OP_TO_FETCHING(op) ((gex_OP_t)(op) << 15)
#define GEX_OP_TO_NONFETCHING(op) ((gex_OP_t)(op) >> 15)

typedef unsigned int gex_TI_t;
#define GEX_TI_SRCRANK 1u
#define GEX_TI_ENTRY 2u
#define GEX_TI_IS_REQ 4u
#define GEX_TI_IS_LONG 8u
#define GEX_TI_EP 16u
#define GEX_TI_ALL 31u

typedef unsigned int gex_EC_t;
#define GEX_EC_GET 1u
#define GEX_EC_PUT 2u
#define GEX_EC_AM 4u
#define GEX_EC_LC 8u
#define GEX_EC_RMW 16u
#define GEX_EC_ALL 31u

#endif
