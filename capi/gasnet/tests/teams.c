/* Teams by color, key and list: their ranks, translations, messages, puts, collectives; made again and again. */
#include "test.h"
#include <gasnet_coll.h>

static int got;
static void note(gex_Token_t token, gex_AM_Arg_t value) {
  (void)token;
  got += value;
}

int main(int argc, char **argv) {
  gex_AM_Entry_t table[] = {{200, (gex_AM_Fn_t)note, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1, NULL, "note"}};
  start(&argc, &argv);
  CHECK(!gex_EP_RegisterHandlers(ep, table, 1));
  meet();
  for (int round = 0; round < 100; round++) {
    gex_TM_t half = GEX_TM_INVALID, back, none = GEX_TM_INVALID;
    const size_t scratch = gex_TM_Split(&half, tm, me % 2, 0, NULL, 0, GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED);
    CHECK(scratch && half == GEX_TM_INVALID && !gex_TM_Split(NULL, tm, 0, 0, NULL, 0, GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED));
    gex_TM_Split(&half, tm, (int)(me % 2), (int)me, base_of(me), scratch, 0);
    CHECK(gex_TM_QuerySize(half) == (size + 1 - me % 2) / 2 && gex_TM_QueryRank(half) == me / 2);
    for (gex_Rank_t rank = 0; rank < gex_TM_QuerySize(half); rank++) {
      CHECK(gex_TM_TranslateRankToJobrank(half, rank) == 2 * rank + me % 2);
      CHECK(gex_TM_TranslateJobrankToRank(half, 2 * rank + me % 2) == rank);
    }
    if (size > 1) CHECK(gex_TM_TranslateJobrankToRank(half, 1 - me % 2) == GEX_RANK_INVALID);
    /* The other way round, by key. */
    gex_TM_Split(&back, tm, 7, -(int)me, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    CHECK(gex_TM_QueryRank(back) == size - 1 - me && gex_TM_QuerySize(back) == size);
    gex_TM_Split(me ? NULL : &none, tm, 1, 1, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    CHECK((none == GEX_TM_INVALID) == (me != 0));
    /* Rank 0 of `back` is the last of the job. */
    int64_t value = me == size - 1 ? 4711 + round : 0, sum = me;
    gex_Event_t first = gex_Coll_BroadcastNB(back, 0, &value, &value, 8, 0);
    gex_Event_t second = gex_Coll_ReduceToAllNB(half, &sum, &sum, GEX_DT_I64, 8, 1, GEX_OP_ADD, 0, 0, 0);
    gex_Event_Wait(second);
    gex_Event_Wait(first);
    int64_t expected = 0;
    for (gex_Rank_t rank = me % 2; rank < size; rank += 2) expected += rank;
    CHECK(value == 4711 + round && sum == expected);
    got = 0;
    gex_Event_Wait(gex_Coll_BarrierNB(back, 0));
    CHECK(!gex_AM_RequestShort1(back, (gex_TM_QueryRank(back) + 1) % size, 200, 0, 3));
    GASNET_BLOCKUNTIL(got == 3);
    gex_RMA_PutBlockingVal(back, gex_TM_QueryRank(back), base_of(me) + 9000, 5, 8, 0);
    CHECK(*(uint64_t *)(base_of(me) + 9000) == 5);
    gex_EP_Location_t list[64];
    gex_TM_t pair = GEX_TM_INVALID;
    const int is_in = me < 2;
    for (gex_Rank_t i = 0; i < size && i < 2; i++) list[i].gex_rank = i, list[i].gex_ep_index = 0;
    gex_TM_Create(&pair, is_in, tm, list, is_in ? (size < 2 ? size : 2) : 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    CHECK((pair == GEX_TM_INVALID) == !is_in);
    if (is_in) {
      CHECK(gex_TM_QueryRank(pair) == me && gex_TM_TranslateRankToEP(pair, 0, 0).gex_rank == 0);
      gex_Event_Wait(gex_Coll_BarrierNB(pair, 0));
      CHECK(!gex_TM_Destroy(pair, NULL, 0));
    }
    gex_Memvec_t memory = {0, 0};
    CHECK(gex_TM_Destroy(half, &memory, 0) == 1 && memory.gex_addr == base_of(me) && memory.gex_len == scratch);
    CHECK(!gex_TM_Destroy(back, &memory, GEX_FLAG_GLOBALLY_QUIESCED));
    if (none) CHECK(!gex_TM_Destroy(none, NULL, 0));
  }
  return done();
}
