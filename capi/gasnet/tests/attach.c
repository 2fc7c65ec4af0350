/* GASNet-1's start: indices of handlers, and segments of different lengths. */
#include "test.h"

static int seen;
static void ping(gasnet_token_t token, gasnet_handlerarg_t number) {
  gasnet_node_t from;
  CHECK(gasnet_AMGetMsgSource(token, &from) == GASNET_OK);
  CHECK(gasnet_AMReplyShort2(token, 200, number + 1, from) == GASNET_OK);
}
static void pong(gasnet_token_t token, gasnet_handlerarg_t number, gasnet_handlerarg_t to) {
  (void)token;
  CHECK(to == (int)gasnet_mynode());
  seen = number;
}

int main(int argc, char **argv) {
  gasnet_handlerentry_t table[] = {
      {0, (gex_AM_Fn_t)ping}, {200, (gex_AM_Fn_t)pong}, {255, (gex_AM_Fn_t)ping}, {0, (gex_AM_Fn_t)ping}};
  gasnet_seginfo_t infos[64];
  CHECK(gasnet_attach(table, 4, 4096, 0) == GASNET_ERR_NOT_INIT);
  CHECK(gasnet_init(&argc, &argv) == GASNET_OK);
  me = gasnet_mynode(), size = gasnet_nodes();
  CHECK(gasnet_getMaxLocalSegmentSize() >= 1 << 20 && gasnet_getMaxGlobalSegmentSize() % GASNET_PAGESIZE == 0);
  CHECK(gasnet_attach(table, 4, (1 + me) * (uintptr_t)GASNET_PAGESIZE, 0) == GASNET_OK);
  CHECK(table[0].index == 254 && table[3].index == 253);
  CHECK(gasnet_getSegmentInfo(infos, size) == GASNET_OK);
  for (gasnet_node_t rank = 0; rank < size; rank++) {
    CHECK(infos[rank].size == (1 + rank) * (uintptr_t)GASNET_PAGESIZE && infos[rank].addr);
    seen = 0;
    CHECK(gasnet_AMRequestShort1(rank, 254, 41) == GASNET_OK);
    GASNET_BLOCKUNTIL(seen == 42);
  }
  gasnet_QueryGexObjects(&client, &ep, &tm, &segment);
  return done();
}
