/* What is at the edge of the specification: nothing to transfer, nothing to wait for, regions in a row, handlers registered late,
 * places in the system, all flags of atomics. */
#include "test.h"
#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <gasnet_vis.h>

static int notes;
static void note(gex_Token_t token) {
  gasnet_node_t from = (gasnet_node_t)-1;
  CHECK(gasnet_AMGetMsgSource(token, &from) == GASNET_OK && from < size);
  notes++;
}

static void nothing(gex_Rank_t to) {
  char *const there = base_of(to);
  gex_Event_t none[3] = {GEX_EVENT_INVALID, GEX_EVENT_INVALID, GEX_EVENT_INVALID}, leaf = GEX_EVENT_NO_OP;
  CHECK(!gex_Event_Test(GEX_EVENT_INVALID) && !gex_Event_TestSome(none, 3, 0) && !gex_Event_TestAll(none, 3, 0));
  CHECK(!gex_Event_TestSome(NULL, 0, 0) && !gex_Event_TestAll(NULL, 0, 0));
  gex_Event_Wait(GEX_EVENT_INVALID);
  gex_Event_WaitSome(none, 3, 0), gex_Event_WaitAll(none, 3, 0), gex_Event_WaitSome(NULL, 0, 0), gex_Event_WaitAll(NULL, 0, 0);
  const gex_EC_t categories[] = {GEX_EC_GET, GEX_EC_PUT, GEX_EC_AM, GEX_EC_LC, GEX_EC_RMW};
  for (int i = 0; i < 5; i++) {
    CHECK(!gex_Event_Test(gex_Event_QueryLeaf(GEX_EVENT_INVALID, categories[i])));
    CHECK(!gex_NBI_Test(categories[i], 0) && !gex_NBI_Test(0, 0));
    gex_NBI_Wait(categories[i], 0);
  }
  gex_NBI_Wait(0, 0);
  CHECK(!gex_RMA_PutBlocking(tm, to, there, NULL, 0, 0) && !gex_RMA_GetBlocking(tm, NULL, to, there, 0, 0));
  gex_Event_Wait(gex_RMA_PutNB(tm, to, there, NULL, 0, &leaf, 0));
  gex_Event_Wait(gex_RMA_GetNB(tm, NULL, to, there, 0, GEX_FLAG_IMMEDIATE));
  CHECK(!gex_RMA_PutNBI(tm, to, there, NULL, 0, GEX_EVENT_NOW, 0) && !gex_RMA_PutNBI(tm, to, there, NULL, 0, GEX_EVENT_DEFER, 0));
  gasnet_put(to, there, NULL, 0), gasnet_get(NULL, to, there, 0), gasnet_memset(to, there, 1, 0);
  gasnet_wait_syncnbi_all();
  CHECK(gasnet_try_syncnb(GASNET_INVALID_HANDLE) == GASNET_OK && gasnet_try_syncnb_some(NULL, 0) == GASNET_OK);
  gasnet_wait_syncnb_all(none, 3);
  /* Lists without an entry, and entries without a byte. */
  gex_Memvec_t empty[] = {{there, 0}, {there, 0}};
  void *places[] = {there, there + 8};
  CHECK(!gex_VIS_VectorPutBlocking(tm, to, 0, NULL, 0, NULL, 0) && !gex_VIS_VectorPutBlocking(tm, to, 2, empty, 1, empty, 0));
  CHECK(!gex_VIS_VectorGetBlocking(tm, 0, NULL, to, 0, NULL, 0) && !gex_VIS_VectorGetBlocking(tm, 0, NULL, to, 2, empty, 0));
  CHECK(!gex_VIS_IndexedPutBlocking(tm, to, 0, NULL, 0, 0, NULL, 0, 0) && !gex_VIS_IndexedPutBlocking(tm, to, 0, NULL, 8, 0, NULL, 4, 0));
  CHECK(!gex_VIS_IndexedGetBlocking(tm, 2, places, 0, to, 1, places, 0, 0));
  gex_Event_Wait(gex_VIS_VectorPutNB(tm, to, 0, NULL, 0, NULL, GEX_FLAG_ENABLE_LEAF_LC));
}

static void regions(gex_Rank_t to) {
  uint64_t *const there = (uint64_t *)base_of(to) + 100 * me, got[10];
  gex_Event_t ends[10];
  /* Empty ones, and several whose ends are awaited later, in the other order. */
  gex_NBI_BeginAccessRegion(0);
  gex_Event_Wait(gex_NBI_EndAccessRegion(0));
  for (uint64_t i = 0; i < 10; i++) {
    gasnet_begin_nbi_accessregion();
    for (uint64_t j = 0; j <= i; j++) CHECK(!gex_RMA_PutNBIVal(tm, to, there + 10 * i + j, i * j, 8, 0));
    CHECK(!gex_RMA_PutNBI(tm, to, there + 10 * i, &i, 8, i % 3 == 0 ? GEX_EVENT_GROUP : i % 3 == 1 ? GEX_EVENT_NOW : GEX_EVENT_DEFER, 0));
    ends[i] = i % 2 ? gex_NBI_EndAccessRegion(0) : gasnet_end_nbi_accessregion();
  }
  for (int i = 9; i >= 0; i--) {
    gex_Event_Wait(gex_Event_QueryLeaf(ends[i], GEX_EC_LC));
    gex_Event_Wait(ends[i]);
    CHECK(!gex_RMA_GetBlocking(tm, got, to, there + 10 * i, sizeof got, 0) && got[0] == (uint64_t)i);
    for (int j = 1; j <= i; j++) CHECK(got[j] == (uint64_t)(i * j));
  }
}

static void late_handlers(void) {
  static int round = 0;
  gex_AM_Entry_t table[] = {{0, (gex_AM_Fn_t)note, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "late"},
                            {200, (gex_AM_Fn_t)note, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "fixed"},
                            {0, (gex_AM_Fn_t)note, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQREP, 0, &round, NULL}};
  /* The highest that are free, in the order of the table. */
  CHECK(!gex_EP_RegisterHandlers(ep, table, 0) && !gex_EP_RegisterHandlers(ep, NULL, 0));
  CHECK(!gex_EP_RegisterHandlers(ep, table, 3) && table[0].gex_index == 255 && table[2].gex_index == 254);
  gex_AM_Entry_t more = {253, (gex_AM_Fn_t)note, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "more"}, last = table[0];
  CHECK(!gex_EP_RegisterHandlers(ep, &more, 1));
  last.gex_index = 0;
  CHECK(!gex_EP_RegisterHandlers(ep, &last, 1) && last.gex_index == 252);
  meet();
  const int indices[] = {255, 254, 253, 252, 200};
  for (int i = 0; i < 5; i++)
    for (gex_Rank_t to = 0; to < size; to++) CHECK(!gex_AM_RequestShort0(tm, to, (gex_AM_Index_t)indices[i], 0));
  GASNET_BLOCKUNTIL(notes == (int)(5 * size));
  meet();
}

static void places(void) {
  gex_RankInfo_t *infos[2];
  gex_Rank_t counts[2], indices[2], sets[4];
  gex_System_QueryNbrhdInfo(&infos[0], &counts[0], &indices[0]);
  gex_System_QueryHostInfo(&infos[1], &counts[1], &indices[1]);
  gex_System_QueryMyPosition(&sets[0], &sets[1], &sets[2], &sets[3]);
  CHECK(sets[0] >= sets[2] && sets[1] < sets[0] && sets[3] < sets[2] && counts[1] >= counts[0]);
  for (int i = 0; i < 2; i++) {
    CHECK(indices[i] < counts[i] && infos[i][indices[i]].gex_jobrank == me);
    for (gex_Rank_t j = 1; j < counts[i]; j++) CHECK(infos[i][j - 1].gex_jobrank < infos[i][j].gex_jobrank);
  }
  gex_System_QueryNbrhdInfo(NULL, NULL, NULL), gex_System_QueryHostInfo(NULL, NULL, NULL);
  gex_System_QueryMyPosition(NULL, NULL, NULL, NULL);
}

static void atomic_flags(void) {
  gex_AD_t ad;
  uint32_t was = 0;
  uint32_t *const mine = (uint32_t *)base_of(me);
  meet();
  *mine = 0;
  gex_AD_Create(&ad, tm, GEX_DT_U32, GEX_OP_FADD | GEX_OP_INC | GEX_OP_GET, GEX_FLAG_AD_FAVOR_REMOTE);
  meet();
  const gex_Flags_t fences[] = {0, GEX_FLAG_AD_ACQ, GEX_FLAG_AD_REL, GEX_FLAG_AD_ACQ | GEX_FLAG_AD_REL};
  const gex_Flags_t wheres[] = {0, GEX_FLAG_AD_MY_NBRHD, GEX_FLAG_RANK_IS_JOBRANK, GEX_FLAG_RANK_IS_JOBRANK | GEX_FLAG_IMMEDIATE};
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++)
      for (gex_Rank_t to = 0; to < size; to++) {
        gex_Event_Wait(gex_AD_OpNB_U32(ad, &was, to, base_of(to), GEX_OP_FADD, 1, 0, fences[i] | wheres[j]));
        CHECK(!gex_AD_OpNBI_U32(ad, NULL, to, base_of(to), GEX_OP_INC, 0, 0, fences[i] | wheres[j]));
        gex_NBI_Wait(GEX_EC_RMW, 0);
      }
  gex_Event_Wait(gex_AD_OpNB_U32(ad, &was, me, mine, GEX_OP_FADD, 0, 0, GEX_FLAG_AD_MY_RANK));
  meet();
  gex_Event_Wait(gex_AD_OpNB_U32(ad, &was, me, mine, GEX_OP_GET, 0, 0, GEX_FLAG_AD_MY_RANK | GEX_FLAG_AD_ACQ));
  CHECK(was == 32 * size);
  meet();
  gex_AD_Destroy(ad);
}

static void collectives_of_one(void) {
  gex_TM_t alone = GEX_TM_INVALID;
  double one = me, sum = -1;
  gex_TM_Split(&alone, tm, (int)me, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
  CHECK(gex_TM_QuerySize(alone) == 1 && !gex_TM_QueryRank(alone));
  gex_Event_Wait(gex_Coll_BarrierNB(alone, 0));
  gex_Event_Wait(gex_Coll_ReduceToOneNB(alone, 0, &sum, &one, GEX_DT_DBL, 8, 1, GEX_OP_MAX, NULL, NULL, 0));
  CHECK(sum == one);
  gex_Event_Wait(gex_Coll_BroadcastNB(alone, 0, &sum, &one, 0, 0));
  CHECK(!gex_TM_Destroy(alone, NULL, GEX_FLAG_GLOBALLY_QUIESCED));
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  late_handlers();
  for (gex_Rank_t to = 0; to < size; to++) nothing(to), regions(to);
  places();
  atomic_flags();
  collectives_of_one();
  gasnet_hold_interrupts();
  CHECK(gasnet_mynode() == me && gasnet_nodes() == size);
  gasnet_resume_interrupts();
  return done();
}
