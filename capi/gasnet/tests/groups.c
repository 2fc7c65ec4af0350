/* Rules of teams, collectives, events, atomics and lists, one by one: what is ignored, what may be NULL, what may be equal. */
#include "test.h"
#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <gasnet_vis.h>

enum { NOTE = 160, HELLO, RELATIVE };
static int notes, hellos, kin;
static char noted[GEX_VIS_MAX_PEERCOMPLETION];
static size_t noted_bytes;
static void note(gex_Token_t token, void *buf, size_t n) {
  gex_Token_Info_t info;
  CHECK(gex_Token_Info(token, &info, GEX_TI_ALL) & GEX_TI_SRCRANK);
  memcpy(noted, buf, n);
  noted_bytes = n, notes++;
}
static void hello(gex_Token_t token) {
  (void)token;
  hellos++;
}
/* A token has the rank in the job, whatever team the request was sent by. */
static void relative(gex_Token_t token, gex_AM_Arg_t jobrank) {
  gex_Token_Info_t info;
  gasnet_node_t from;
  CHECK(gex_Token_Info(token, &info, GEX_TI_SRCRANK) & GEX_TI_SRCRANK && !gasnet_AMGetMsgSource(token, &from));
  CHECK(info.gex_srcrank == (gex_Rank_t)jobrank && from == info.gex_srcrank);
  kin++;
}

/* All members in the other order, by their ranks in the job or in a parent. */
static gex_TM_t reversed(gex_TM_t parent, gex_Flags_t flags, gex_Addr_t *scratch, size_t bytes) {
  gex_EP_Location_t list[64];
  gex_TM_t made = GEX_TM_INVALID;
  const gex_Rank_t n = gex_TM_QuerySize(parent);
  for (gex_Rank_t i = 0; i < n; i++) {
    list[i].gex_rank = flags & GEX_FLAG_RANK_IS_JOBRANK ? gex_TM_TranslateRankToJobrank(parent, n - 1 - i) : n - 1 - i;
    list[i].gex_ep_index = gex_EP_QueryIndex(ep);
  }
  const size_t wished = gex_TM_Create(&made, 1, parent, list, n, NULL, 0, flags | GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED);
  CHECK(wished && made == GEX_TM_INVALID);
  gex_TM_Create(&made, 1, parent, list, n, scratch, bytes, flags);
  CHECK(made != GEX_TM_INVALID && gex_TM_QuerySize(made) == n && gex_TM_QueryRank(made) == n - 1 - gex_TM_QueryRank(parent));
  CHECK(!gex_TM_QueryCData(made) && gex_TM_QueryClient(made) == client && gex_TM_QueryEP(made) == ep && gex_TM_QueryFlags(made) == flags);
  return made;
}

static void teams(void) {
  char *const mine = base_of(me) + 4096;
  gex_Addr_t all[64], local[] = {mine};
  gex_Memvec_t back = {NULL, 77};
  for (gex_Rank_t i = 0; i < size; i++) all[i] = base_of(size - 1 - i) + 4096; /* in the order of the new ranks */
  const struct {
    gex_Flags_t flags;
    gex_Addr_t *scratch;
  } ways[] = {{GEX_FLAG_TM_LOCAL_SCRATCH, local}, {GEX_FLAG_TM_GLOBAL_SCRATCH, all},
              {GEX_FLAG_TM_GLOBAL_SCRATCH | GEX_FLAG_RANK_IS_JOBRANK, all}, {GEX_FLAG_TM_SYMMETRIC_SCRATCH, local}};
  for (int i = 0; i < 4; i++) {
    gex_TM_t made = reversed(tm, ways[i].flags, ways[i].scratch, 8192);
    gex_Event_Wait(gex_Coll_BarrierNB(made, 0));
    CHECK(gex_TM_Destroy(made, &back, 0) && back.gex_addr == mine && back.gex_len == 8192);
    made = reversed(tm, ways[i].flags, ways[i].scratch, 8192);
    gex_Event_Wait(gex_Coll_BarrierNB(made, 0));
    meet();
    gex_TM_Destroy(made, NULL, GEX_FLAG_GLOBALLY_QUIESCED);
  }
  /* Without scratch its arguments are ignored, and none is given back. A team of a team. */
  back.gex_len = 77;
  gex_TM_t made = reversed(tm, GEX_FLAG_TM_NO_SCRATCH, (gex_Addr_t *)8, 3);
  gex_TM_t twice = reversed(made, GEX_FLAG_TM_NO_SCRATCH | GEX_FLAG_RANK_IS_JOBRANK, NULL, 0);
  CHECK(gex_TM_QueryRank(twice) == me);
  for (gex_Rank_t i = 0; i < size; i++) {
    CHECK(gex_TM_TranslateRankToJobrank(made, i) == size - 1 - i && gex_TM_TranslateJobrankToRank(made, i) == size - 1 - i);
    const gex_EP_Location_t at = gex_TM_TranslateRankToEP(made, i, 0);
    CHECK(at.gex_rank == size - 1 - i && !at.gex_ep_index && gex_TM_TranslateRankToJobrank(twice, i) == i);
  }
  CHECK(!gex_TM_Destroy(twice, &back, 0) && !gex_TM_Destroy(made, &back, 0) && back.gex_len == 77);
  /* No list: all else is ignored. A list without the caller. */
  CHECK(!gex_TM_Create(NULL, 77, tm, NULL, 0, NULL, 0, GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED));
  gex_TM_Create((gex_TM_t *)8, 77, tm, (gex_EP_Location_t *)8, 0, (gex_Addr_t *)8, 1, GEX_FLAG_TM_NO_SCRATCH);
  gex_EP_Location_t first = {0, 0};
  gex_TM_t alone = GEX_TM_INVALID;
  gex_TM_Create(&alone, !me, tm, &first, 1, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
  CHECK((alone == GEX_TM_INVALID) == (me != 0));
  if (alone) gex_TM_Destroy(alone, NULL, 0);
  CHECK(gex_TM_Split(&alone, tm, 0, 0, NULL, 0, GEX_FLAG_TM_SCRATCH_SIZE_MIN));
  /* Nobody takes part. */
  gex_TM_Split(NULL, tm, 0, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
  gex_TM_Split(&alone, tm, 0x7fffffff, (int)(me % 2 ? -0x7fffffff : 0x7fffffff), NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
  CHECK(gex_TM_QueryRank(alone) == (me % 2 ? me / 2 : size / 2 + me / 2));
  gex_TM_Destroy(alone, NULL, 0);
}

/* Splits of a team that is not that of all: equal keys leave the order of the parent. */
static void splits(void) {
  const gex_TM_t parent = reversed(tm, GEX_FLAG_TM_NO_SCRATCH, NULL, 0);
  const gex_Rank_t rank = gex_TM_QueryRank(parent), color = rank % 2;
  gex_TM_t half = GEX_TM_INVALID, none = GEX_TM_INVALID;
  gex_TM_Split(&half, parent, (int)color, 3, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
  const gex_Rank_t n = gex_TM_QuerySize(half);
  CHECK(n == (size + 1 - color) / 2 && gex_TM_QueryRank(half) == rank / 2);
  for (gex_Rank_t i = 0; i < n; i++) {
    const gex_Rank_t jobrank = size - 1 - (2 * i + color);
    CHECK(gex_TM_TranslateRankToJobrank(half, i) == jobrank && gex_TM_TranslateJobrankToRank(half, jobrank) == i);
    CHECK(!gex_AM_RequestShort1(half, i, RELATIVE, 0, (int)me));
    CHECK(!gex_RMA_PutBlockingVal(half, i, base_of(jobrank) + 2048 + 8 * gex_TM_QueryRank(half), me, 8, 0));
  }
  gex_Event_Wait(gex_Coll_BarrierNB(half, 0));
  for (gex_Rank_t i = 0; i < n; i++) CHECK(((uint64_t *)(base_of(me) + 2048))[i] == gex_TM_TranslateRankToJobrank(half, i));
  GASNET_BLOCKUNTIL(kin == (int)n);
  /* Some of them alone. */
  gex_TM_Split(color ? NULL : &none, parent, 0, -(int)rank, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
  CHECK((none == GEX_TM_INVALID) == (color == 1));
  if (none) CHECK(gex_TM_QuerySize(none) == n && gex_TM_QueryRank(none) == n - 1 - rank / 2 && !gex_TM_Destroy(none, NULL, 0));
  gex_TM_Destroy(parent, NULL, 0); /* its children stay */
  gex_Event_Wait(gex_Coll_BarrierNB(half, 0));
  gex_TM_Destroy(half, NULL, 0);
}

/* A pair names endpoints by ranks of the job. */
static void pairs(gex_Rank_t to) {
  const gex_TM_t pair = gex_TM_Pair(ep, 0);
  void *owner = NULL, *other = NULL;
  uintptr_t bytes = 0;
  uint64_t value = 4711, got = 0;
  void *theirs[] = {base_of(to) + 8 * me}, *mine[] = {&value};
  CHECK(pair == gex_TM_Pair(ep, 0) && pair != tm && pair != GEX_TM_INVALID);
  CHECK(!gex_Segment_QueryBound(pair, to, &owner, NULL, &bytes) && owner == base_of(to) && bytes == 1 << 20);
  gex_Event_Wait(gex_EP_QueryBoundSegmentNB(pair, to, &other, NULL, NULL, 0));
  CHECK(other == owner);
  CHECK(!gex_VIS_IndexedPutBlocking(pair, to, 1, theirs, 8, 1, mine, 8, 0));
  const gex_Flags_t never = to == me ? 0 : GEX_FLAG_PEER_NEVER_SELF;
  gex_Event_Wait(gex_RMA_GetNB(pair, &got, to, theirs[0], 8, never | GEX_FLAG_IMMEDIATE));
  CHECK(got == 4711 && gex_RMA_GetBlockingVal(pair, to, theirs[0], 8, never) == 4711);
  const size_t limits[] = {gex_AM_MaxRequestMedium(pair, to, NULL, 0, 3), gex_AM_MaxRequestMedium(tm, to, NULL, 0, 3)};
  CHECK(limits[0] == limits[1] && limits[0] >= gex_AM_MaxRequestMedium(pair, GEX_RANK_INVALID, NULL, 0, 3));
  CHECK(!gex_AM_RequestShort0(pair, to, HELLO, 0));
}

static void join(const void *left, void *right, size_t count, const void *data) {
  const uint32_t *const x = (const uint32_t *)left;
  uint32_t *const y = (uint32_t *)right;
  CHECK(count >= 1 && !data);
  for (size_t i = 0; i < count; i++) y[i] = x[i] > y[i] ? x[i] : y[i];
}

static void collectives(void) {
  uint32_t values[4], result[4];
  const gex_TM_t other = reversed(tm, GEX_FLAG_TM_NO_SCRATCH, NULL, 0);
  for (gex_Rank_t root = 0; root < size; root++) {
    /* At others than the root the source of a broadcast, and the target of a reduction, are ignored; at the root both may be equal. */
    for (int i = 0; i < 4; i++) values[i] = me == root ? 100 + root : 0;
    gex_Event_Wait(gex_Coll_BroadcastNB(tm, root, values, me == root ? values : (void *)8, sizeof values, 0));
    CHECK(values[0] == 100 + root && values[3] == 100 + root);
    gex_Event_Wait(gex_Coll_BroadcastNB(tm, root, NULL, NULL, 0, 0));
    for (int i = 0; i < 4; i++) values[i] = me + (uint32_t)i;
    gex_Event_Wait(gex_Coll_ReduceToOneNB(tm, root, me == root ? values : NULL, values, GEX_DT_U32, 4, 4, GEX_OP_MAX, NULL, NULL, 0));
    CHECK(values[2] == (me == root ? size - 1 : me) + 2);
    /* The program's operation, of a type of numbers and of its own. */
    for (int i = 0; i < 4; i++) values[i] = 2 * me;
    gex_Event_Wait(gex_Coll_ReduceToAllNB(other, result, values, GEX_DT_U32, 4, 4, GEX_OP_USER, join, NULL, 0));
    gex_Event_Wait(gex_Coll_ReduceToOneNB(other, root, values, values, GEX_DT_USER, 4, 4, GEX_OP_USER_NC, join, NULL, 0));
    CHECK(result[0] == 2 * (size - 1) && values[3] == (gex_TM_QueryRank(other) == root ? 2 * (size - 1) : 2 * me));
    /* Several of one team and of two, awaited in the other order, some of them in lists with those that have happened. */
    uint32_t sums[3] = {me, 1, 7}, from = me == root ? 55 : 0;
    gex_Event_t events[8] = {
        gex_Coll_ReduceToAllNB(tm, &sums[0], &sums[0], GEX_DT_U32, 4, 1, GEX_OP_ADD, NULL, NULL, 0),
        gex_Coll_BarrierNB(other, 0), GEX_EVENT_INVALID,
        gex_Coll_BroadcastNB(tm, root, &from, &from, 4, 0),
        gex_Coll_ReduceToAllNB(other, &sums[1], &sums[1], GEX_DT_U32, 4, 1, GEX_OP_ADD, NULL, NULL, 0),
        gex_Coll_BarrierNB(tm, 0), gex_Coll_BarrierNB(tm, 0), GEX_EVENT_INVALID};
    gex_Event_Wait(events[6]), events[6] = GEX_EVENT_INVALID;
    int left = 8;
    while (left) {
      if (root % 2) gex_Event_WaitSome(events, 8, 0);
      else while (gex_Event_TestSome(events, 8, 0)) gasnet_AMPoll();
      int now = 0;
      for (int i = 0; i < 8; i++) now += events[i] != GEX_EVENT_INVALID;
      CHECK(now < left);
      left = now;
    }
    CHECK(!gex_Event_TestAll(events, 8, 0) && sums[0] == size * (size - 1) / 2 && sums[1] == size && from == 55);
    /* The barrier of GASNet-1 between them. */
    CHECK(!gasnet_barrier((int)root, 0));
  }
  gex_TM_Destroy(other, NULL, 0);
}

static void atomics(void) {
  const gex_TM_t other = reversed(tm, GEX_FLAG_TM_NO_SCRATCH, NULL, 0);
  gex_AD_t ad = GEX_AD_INVALID;
  int64_t got = -1;
  int64_t *const mine = (int64_t *)base_of(me);
  *mine = 0;
  gex_AD_Create(&ad, other, GEX_DT_I64, GEX_OP_ADD | GEX_OP_FINC | GEX_OP_SET | GEX_OP_GET | GEX_OP_FCAS, 0);
  CHECK(gex_AD_QueryTM(ad) == other && !gex_AD_QueryFlags(ad) && !gex_AD_QueryCData(ad));
  meet();
  for (gex_Rank_t to = 0; to < size; to++) {
    /* By ranks of the team, and by those of the job; a result that there is none of is ignored, as are operands. */
    gex_Event_Wait(gex_AD_OpNB_I64(ad, (int64_t *)8, to, base_of(size - 1 - to), GEX_OP_ADD, 10, 99, 0));
    CHECK(!gex_AD_OpNBI_I64(ad, &got, to, base_of(to), GEX_OP_FINC, 99, 99, GEX_FLAG_RANK_IS_JOBRANK));
    gex_NBI_Wait(GEX_EC_RMW, 0);
    CHECK(got >= 0);
    gex_Event_Wait(gex_AD_OpNB_I64(ad, &got, to, base_of(size - 1 - to), GEX_OP_FCAS, -7, 1, GEX_FLAG_AD_ACQ | GEX_FLAG_AD_REL));
    CHECK(got > 0);
  }
  meet();
  CHECK(!gex_AD_OpNBI_I64(ad, &got, gex_TM_QueryRank(other), mine, GEX_OP_GET, 0, 0, GEX_FLAG_AD_MY_RANK));
  gex_NBI_Wait(GEX_EC_GET, 0);
  CHECK(got == 11 * (int64_t)size);
  CHECK(!gex_AD_OpNBI_I64(ad, NULL, me, mine, GEX_OP_SET, -3, 0, GEX_FLAG_RANK_IS_JOBRANK));
  gex_NBI_Wait(GEX_EC_PUT, 0);
  CHECK(*mine == -3);
  meet();
  gex_AD_Destroy(ad);
  gex_TM_Destroy(other, NULL, 0);
}

static void lists(gex_Rank_t to) {
  char *const there = base_of(to) + 65536 + 1024 * me;
  char from[64], got[64];
  size_t counts[] = {3, 2}, nothing[] = {3, 0};
  ptrdiff_t strides[] = {8, 32}, packed[] = {8, 24};
  for (int i = 0; i < 64; i++) from[i] = (char)(i + me);
  gex_RMA_PutBlocking(tm, to, there, from, 64, 0);
  /* No bytes in an element: all else is ignored. A count of 0: ranks and addresses. No level: the arrays. */
  gex_TM_t none = GEX_TM_INVALID;
  CHECK(!gex_VIS_StridedPutBlocking(none, 9999, NULL, NULL, NULL, NULL, 0, NULL, 5, 0));
  CHECK(!gex_VIS_StridedGetNBI(none, NULL, NULL, 9999, NULL, NULL, 0, NULL, 5, GEX_FLAG_IMMEDIATE));
  gex_Event_Wait(gex_VIS_StridedPutNB(none, 9999, NULL, strides, NULL, packed, 8, nothing, 2, 0));
  CHECK(!gex_VIS_StridedGetBlocking(none, (void *)8, strides, 9999, (void *)8, packed, 8, nothing, 2, 0));
  CHECK(!gex_VIS_StridedGetBlocking(tm, got, NULL, to, there, NULL, 64, NULL, 0, 0) && !memcmp(got, from, 64));
  /* Counts and strides may change behind a call. */
  memset(got, 0, sizeof got);
  const gex_Event_t event = gex_VIS_StridedGetNB(tm, got, packed, to, there, strides, 8, counts, 2, 0);
  counts[0] = counts[1] = 0, strides[0] = packed[0] = 0;
  gex_Event_Wait(event);
  CHECK(!memcmp(got, from, 24) && !memcmp(got + 24, from + 32, 24) && !got[48]);
  /* A source may overlap itself. Leaves tell that it is free. */
  gex_Memvec_t twice[] = {{from, 16}, {from + 8, 8}, {from, 8}}, target[] = {{there, 32}};
  gex_Event_t put = gex_VIS_VectorPutNB(tm, to, 1, target, 3, twice, GEX_FLAG_ENABLE_LEAF_LC);
  gex_Event_t leaf = gex_Event_QueryLeaf(put, GEX_EC_LC);
  CHECK(gex_Event_QueryLeaf(put, GEX_EC_LC) == leaf);
  gex_Event_t both[] = {put, leaf};
  gex_Event_WaitAll(both, 2, 0);
  void *sources[] = {from + 8, from + 8}, *targets[] = {there + 32};
  CHECK(!gex_VIS_IndexedPutNBI(tm, to, 1, targets, 16, 2, sources, 8, GEX_FLAG_ENABLE_LEAF_LC));
  gex_NBI_Wait(GEX_EC_LC, 0);
  gex_NBI_Wait(GEX_EC_PUT, 0);
  CHECK(!gex_RMA_GetBlocking(tm, got, to, there, 48, 0) && !memcmp(got, from, 16) && !memcmp(got + 16, from + 8, 8));
  CHECK(!memcmp(got + 24, from, 8) && !memcmp(got + 32, from + 8, 8) && !memcmp(got + 40, from + 8, 8));
}

/* The next put alone tells its target: of two notes the last, of none nothing, of an empty one and by an empty put all the same. */
static void notices(gex_Rank_t to) {
  char *const there = base_of(to) + 65536 + 1024 * me;
  static char most[GEX_VIS_MAX_PEERCOMPLETION];
  void *targets[] = {there};
  char byte = 1;
  void *sources[] = {&byte};
  const size_t none[] = {0};
  const ptrdiff_t stride[] = {1};
  memset(most, 'm', sizeof most);
  gex_VIS_SetPeerCompletionHandler(NOTE, "first", 5, 0), gex_VIS_SetPeerCompletionHandler(NOTE, most, sizeof most, 0);
  if (to == (me + 1) % size) {
    CHECK(!gex_VIS_IndexedPutNBI(tm, to, 1, targets, 1, 1, sources, 1, 0));
    gex_NBI_Wait(GEX_EC_PUT, 0);
    GASNET_BLOCKUNTIL(notes == 1);
    CHECK(noted_bytes == sizeof most && !memcmp(noted, most, sizeof most));
    meet();
    gex_VIS_SetPeerCompletionHandler(NOTE, (void *)8, 0, 0);
    CHECK(!gex_VIS_VectorPutBlocking(tm, to, 0, NULL, 0, NULL, 0));
    GASNET_BLOCKUNTIL(notes == 2);
    CHECK(!noted_bytes);
    meet();
    /* So is one of strides: without bytes in an element, or without elements. */
    for (int i = 0; i < 2; i++) {
      gex_VIS_SetPeerCompletionHandler(NOTE, "told", 4, 0);
      CHECK(!gex_VIS_StridedPutBlocking(tm, to, there, stride, &byte, stride, (size_t)i, none, 1, 0));
      GASNET_BLOCKUNTIL(notes == 3 + i);
      CHECK(noted_bytes == 4 && !memcmp(noted, "told", 4));
      meet();
    }
    /* A put without bytes to what is no rank uses the note up. */
    gex_VIS_SetPeerCompletionHandler(NOTE, "lost", 4, 0);
    CHECK(!gex_VIS_StridedPutBlocking(tm, size, there, stride, &byte, stride, 1, none, 1, 0));
    gex_VIS_SetPeerCompletionHandler(NOTE, "lost", 4, 0);
    CHECK(!gex_VIS_VectorPutBlocking(tm, size + 7, 0, NULL, 0, NULL, 0));
  }
  gex_VIS_SetPeerCompletionHandler(0, (void *)8, 77, 0);
  CHECK(!gex_VIS_StridedPutBlocking(tm, to, there, NULL, &byte, NULL, 1, NULL, 0, 0));
}

int main(int argc, char **argv) {
  gex_AM_Entry_t table[] = {{NOTE, (gex_AM_Fn_t)note, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 0, NULL, NULL},
                            {HELLO, (gex_AM_Fn_t)hello, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, NULL},
                            {RELATIVE, (gex_AM_Fn_t)relative, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1, NULL, NULL}};
  start(&argc, &argv);
  CHECK(!gex_EP_RegisterHandlers(ep, table, 3));
  meet();
  teams();
  splits();
  for (gex_Rank_t to = 0; to < size; to++) pairs(to);
  GASNET_BLOCKUNTIL(hellos == (int)size);
  collectives();
  atomics();
  meet();
  for (gex_Rank_t to = 0; to < size; to++) lists(to);
  for (gex_Rank_t to = 0; to < size; to++) notices((me + to) % size);
  meet();
  CHECK(notes == 4);
  return done();
}
