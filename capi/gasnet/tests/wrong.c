/* Wrong use: one sentence, and the job ends.
 * ranks: 1 2
 * run: poll-in-handler = says gasnet_AMPoll: a handler of a request may only reply
 * run: put-in-handler = says gex_RMA_PutBlocking: a handler of a request may only reply
 * run: request-in-handler = says gex_AM_RequestShort: a handler of a request may only reply
 * run: two-replies = says gex_AM_ReplyShort: the handler has replied already
 * run: reply-to-reply = says gex_AM_ReplyShort: a handler of a reply may not reply
 * run: poll-in-reply = says gasnet_AMPoll: a handler of a reply may not communicate
 * run: unregistered = says handler 222, which is not registered here
 * run: wrong-side = says which was registered for the other side
 * run: wrong-kind = says which was not registered for that kind
 * run: wrong-count = says sent 2 arguments to handler 130, which was registered for 0
 * run: no-rank = says gex_AM_RequestShort: expected a rank below
 * run: put-outside = says gex_RMA_PutBlocking: expected bytes in the segment of rank 0
 * run: get-outside = says gex_RMA_GetBlocking: expected bytes in the segment of rank 0
 * run: value-outside = says gex_RMA_PutBlockingVal: expected bytes in the segment of rank 0
 * run: value-before = says gex_RMA_GetBlockingVal: expected bytes in the segment of rank 0
 * run: value-too-long = says got 9 at
 * run: value-no-rank = says gex_RMA_GetBlockingVal: expected a rank below
 * run: value-in-handler = says gex_RMA_GetBlockingVal: a handler of a request may only reply
 * run: event-with-lock = says gex_Event_Wait: a handler-safe lock is held
 * run: test-with-lock = says gex_NBI_Test: a handler-safe lock is held
 * run: rank-of-nothing = says expected a team, got GEX_TM_INVALID
 * run: long-outside = says gex_AM_RequestLong: expected a destination in the segment of rank 0
 * run: too-long = says gex_AM_RequestMedium: expected a payload of at most
 * run: notify-twice = says gasnet_barrier_notify: the last barrier was notified and not waited for
 * run: wait-alone = says gasnet_barrier_wait: no barrier was notified
 * run: lock-twice = says gex_HSL_Lock: this thread has the lock already
 * run: unlock-alone = says gex_HSL_Unlock: this thread has not the lock
 * run: lock-order = says gex_HSL_Unlock: another lock was taken later
 * run: poll-with-lock = says gasnet_AMPoll: a handler-safe lock is held
 * run: handler-keeps-lock = says handler 131 returned with a handler-safe lock
 * run: destroy-held = says gex_HSL_Destroy: the lock is held
 * run: no-lock = says gex_HSL_Lock: the lock is not initialised
 * run: put-while-prepared = says gex_RMA_PutBlocking: a message is prepared and not committed
 * run: prepared-elsewhere = says gex_AM_CommitRequestLong: expected the destination of the prepared message
 * run: region-in-region = says gex_NBI_BeginAccessRegion: there is an access region already
 * run: no-op-event = says gex_Event_Wait: expected an event, got GEX_EVENT_NO_OP
 * run: pair-collective = says gex_Coll_BarrierNB: expected a team, got a pair of endpoints
 * run: second-endpoint = says gex_TM_Pair: expected endpoint 0, got 1
 * run: atomic-outside = says gex_AD_Op: expected 4 aligned bytes in the segment of rank 0
 * run: atomic-op = says gex_AD_Op: expected data type
 * run: atomic-bits = says gex_AD_Create: expected no bitwise operation of data type 0x10
 * run: reduce-bits = says gex_Coll_ReduceToAllNB: operation 0x1 of data type 0x10 is not defined
 * run: reduce-user = says gex_Coll_ReduceToAllNB: operation 0x8 of data type 0x40 is not defined
 * run: reduce-nothing = says gex_Coll_ReduceToAllNB: expected some elements of 4 bytes, got 0 of 4
 * run: reduce-size = says gex_Coll_ReduceToAllNB: expected some elements of 8 bytes, got 1 of 4
 * run: broadcast-root = says gex_Coll_BroadcastNB: expected a rank below
 * run: commit-too-long = says gex_AM_CommitRequestMedium: expected at most 4 bytes and 0 arguments
 * run: prepare-twice = says gex_AM_PrepareRequestMedium: a message is prepared and not committed
 * run: create-uneven = says gex_TM_Create: expected a place for the team of this rank, got 0
 * run: destroy-bound = says gex_Segment_Destroy: the segment is bound, and stays
 * run: query-nothing = says gex_Segment_QuerySize: expected a segment, got GEX_SEGMENT_INVALID */
#include "test.h"
#include <gasnet_coll.h>
#include <gasnet_ratomic.h>

static const char *how;
static gex_HSL_t lock = GEX_HSL_INITIALIZER, other = GEX_HSL_INITIALIZER;
#define IS(name) (!strcmp(how, name))

static void wrong(gex_Token_t token) {
  int value = 0;
  if (IS("poll-in-handler")) gasnet_AMPoll();
  if (IS("put-in-handler")) gex_RMA_PutBlocking(tm, me, gex_Segment_QueryAddr(segment), &value, 4, 0);
  if (IS("value-in-handler")) gex_RMA_GetBlockingVal(tm, me, gex_Segment_QueryAddr(segment), 4, 0);
  if (IS("request-in-handler")) gex_AM_RequestShort0(tm, me, 130, 0);
  if (IS("two-replies")) gex_AM_ReplyShort0(token, 132, 0), gex_AM_ReplyShort0(token, 132, 0);
  if (IS("reply-to-reply") || IS("poll-in-reply")) gex_AM_ReplyShort0(token, 132, 0);
}
static void keeps(gex_Token_t token) {
  (void)token;
  gex_HSL_Lock(&lock);
}
static void reply(gex_Token_t token) {
  if (IS("reply-to-reply")) gex_AM_ReplyShort0(token, 132, 0);
  if (IS("poll-in-reply")) gasnet_AMPoll();
}

int main(int argc, char **argv) {
  gex_AM_Entry_t table[] = {{130, (gex_AM_Fn_t)wrong, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "wrong"},
                            {131, (gex_AM_Fn_t)keeps, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "keeps"},
                            {132, (gex_AM_Fn_t)reply, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0, NULL, "reply"}};
  static char data[1 << 16];
  gex_HSL_t garbage = {1, 2, 3};
  gex_AD_t ad;
  int32_t result;
  start(&argc, &argv);
  how = argv[1];
  CHECK(!gex_EP_RegisterHandlers(ep, table, 3));
  char *const there = base_of(0);
  meet();
  if (strstr(how, "atomic-")) gex_AD_Create(&ad, tm, IS("atomic-bits") ? GEX_DT_FLT : GEX_DT_I32, IS("atomic-bits") ? GEX_OP_FAND : GEX_OP_ADD, 0);
  if (me == size - 1) {
    if (strstr(how, "handler") || strstr(how, "repl") || IS("poll-in-reply"))
      gex_AM_RequestShort0(tm, 0, IS("handler-keeps-lock") ? 131 : 130, 0);
    if (IS("unregistered")) gex_AM_RequestShort0(tm, 0, 222, 0);
    if (IS("wrong-side")) gex_AM_RequestShort0(tm, 0, 132, 0);
    if (IS("wrong-kind")) gex_AM_RequestMedium0(tm, 0, 130, data, 1, GEX_EVENT_NOW, 0);
    if (IS("wrong-count")) gex_AM_RequestShort2(tm, 0, 130, 0, 1, 2);
    if (IS("no-rank")) gex_AM_RequestShort0(tm, size, 130, 0);
    if (IS("put-outside")) gex_RMA_PutBlocking(tm, 0, there + (1 << 20) - 4, data, 8, 0);
    if (IS("get-outside")) gex_RMA_GetBlocking(tm, data, 0, there - 1, 8, 0);
    if (IS("value-outside")) gex_RMA_PutBlockingVal(tm, 0, there + (1 << 20) - 4, 1, 8, 0);
    if (IS("value-before")) gex_RMA_GetBlockingVal(tm, 0, there - 1, 2, 0);
    if (IS("value-too-long")) gex_RMA_GetBlockingVal(tm, 0, there, 9, 0);
    if (IS("value-no-rank")) gex_RMA_GetBlockingVal(tm, size + GASNET_MAXNODES, there, 8, 0);
    if (IS("event-with-lock")) gex_HSL_Lock(&lock), gex_Event_Wait(GEX_EVENT_INVALID);
    if (IS("test-with-lock")) gex_HSL_Lock(&lock), gex_NBI_Test(GEX_EC_ALL, 0);
    if (IS("rank-of-nothing")) printf("%d", (int)gex_TM_QueryRank(GEX_TM_INVALID));
    if (IS("long-outside")) gex_AM_RequestLong0(tm, 0, 130, data, 8, there + (1 << 20) - 4, GEX_EVENT_NOW, 0);
    if (IS("too-long")) gex_AM_RequestMedium0(tm, 0, 130, data, 1 + gex_AM_LUBRequestMedium(), GEX_EVENT_NOW, 0);
    if (IS("notify-twice")) gasnet_barrier_notify(0, 0), gasnet_barrier_notify(0, 0);
    if (IS("wait-alone")) gasnet_barrier_wait(0, 0);
    if (IS("lock-twice")) gex_HSL_Lock(&lock), gex_HSL_Lock(&lock);
    if (IS("unlock-alone")) gex_HSL_Unlock(&lock);
    if (IS("lock-order")) gex_HSL_Lock(&lock), gex_HSL_Lock(&other), gex_HSL_Unlock(&lock);
    if (IS("poll-with-lock")) gex_HSL_Lock(&lock), gasnet_AMPoll();
    if (IS("destroy-held")) gex_HSL_Lock(&lock), gex_HSL_Destroy(&lock);
    if (IS("no-lock")) gex_HSL_Lock(&garbage);
    if (IS("put-while-prepared")) {
      gex_AM_PrepareRequestMedium(tm, 0, NULL, 1, 1, NULL, 0, 0);
      gex_RMA_PutBlocking(tm, 0, there, data, 8, 0);
    }
    if (IS("prepared-elsewhere")) {
      gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestLong(tm, 0, data, 8, 8, there, GEX_EVENT_NOW, 0, 0);
      gex_AM_CommitRequestLong(sd, 130, 8, there + 8);
    }
    if (IS("reduce-bits")) gex_Coll_ReduceToAllNB(tm, data, data, GEX_DT_FLT, 4, 1, GEX_OP_AND, NULL, NULL, 0);
    if (IS("reduce-user")) gex_Coll_ReduceToAllNB(tm, data, data, GEX_DT_USER, 4, 1, GEX_OP_ADD, NULL, NULL, 0);
    if (IS("reduce-nothing")) gex_Coll_ReduceToAllNB(tm, data, data, GEX_DT_I32, 4, 0, GEX_OP_ADD, NULL, NULL, 0);
    if (IS("reduce-size")) gex_Coll_ReduceToAllNB(tm, data, data, GEX_DT_I64, 4, 1, GEX_OP_ADD, NULL, NULL, 0);
    if (IS("broadcast-root")) gex_Coll_BroadcastNB(tm, size, data, data, 4, 0);
    if (IS("commit-too-long"))
      gex_AM_CommitRequestMedium0(gex_AM_PrepareRequestMedium(tm, 0, NULL, 4, 4, NULL, 0, 0), 130, 5);
    if (IS("prepare-twice"))
      for (int i = 0; i < 2; i++) gex_AM_PrepareRequestMedium(tm, 0, NULL, 4, 4, NULL, 0, 0);
    if (IS("create-uneven")) {
      gex_EP_Location_t mine = {me, 0};
      gex_TM_Create(NULL, 0, tm, &mine, 1, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    }
    if (IS("region-in-region")) gex_NBI_BeginAccessRegion(0), gex_NBI_BeginAccessRegion(0);
    if (IS("no-op-event")) gex_Event_Wait(GEX_EVENT_NO_OP);
    if (IS("pair-collective")) gex_Coll_BarrierNB(gex_TM_Pair(ep, 0), 0);
    if (IS("second-endpoint")) gex_TM_Pair(ep, 1);
    if (strstr(how, "atomic-")) {
      if (IS("atomic-op")) gex_AD_OpNB_I32(ad, &result, 0, there, GEX_OP_FADD, 1, 0, 0);
      else gex_AD_OpNB_I32(ad, &result, 0, there + 2, GEX_OP_ADD, 1, 0, 0);
    }
    if (IS("destroy-bound")) gex_Segment_Destroy(segment, 0);
    if (IS("query-nothing")) gex_Segment_QuerySize(GEX_SEGMENT_INVALID);
  }
  GASNET_BLOCKUNTIL(0);
  return 0;
}
