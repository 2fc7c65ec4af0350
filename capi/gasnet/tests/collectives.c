/* Barriers in flight, broadcasts and reductions of all types, lengths and roots; the program's own operation. */
#include "test.h"
#include <gasnet_coll.h>

static void overlapping(void) {
  gex_Event_t events[8];
  for (int round = 0; round < 50; round++) {
    for (int i = 0; i < 8; i++) events[i] = gex_Coll_BarrierNB(tm, 0);
    for (int i = 7; i >= 0; i -= 2) gex_Event_Wait(events[i]), events[i] = GEX_EVENT_INVALID;
    if (round % 2) gex_Event_WaitAll(events, 8, 0);
    else while (gex_Event_TestAll(events, 8, 0)) gasnet_AMPoll();
  }
}
static void broadcasts(void) {
  static unsigned char source[50000], target[50000];
  const size_t lens[] = {0, 1, 100, 8127, 8128, 8129, 50000};
  for (gex_Rank_t root = 0; root < size; root++)
    for (int i = 0; i < 7; i++) {
      for (size_t j = 0; j < lens[i]; j++) source[j] = (unsigned char)(me == root ? j * 3 + root : 0), target[j] = 0;
      gex_Event_Wait(gex_Coll_BroadcastNB(tm, root, target, source, lens[i], 0));
      for (size_t j = 0; j < lens[i]; j++) CHECK(target[j] == (unsigned char)(j * 3 + root));
      gex_Event_Wait(gex_Coll_BroadcastNB(tm, root, target, target, lens[i], 0));
    }
}

#define REDUCE(DT, T, COUNT)                                                                              \
  do {                                                                                                    \
    static T mine[COUNT], all[COUNT];                                                                     \
    T sum = 0, product = 1;                                                                               \
    for (gex_Rank_t rank = 0; rank < size; rank++) sum += (T)(rank + 1), product *= (T)(rank + 1);        \
    for (gex_Rank_t root = 0; root <= size; root++)                                                       \
      for (int op = 0; op < 4; op++) {                                                                    \
        const gex_OP_t ops[] = {GEX_OP_ADD, GEX_OP_MULT, GEX_OP_MIN, GEX_OP_MAX};                         \
        const T expected[] = {sum, product, 1, (T)size};                                                  \
        for (int i = 0; i < COUNT; i++) mine[i] = (T)(me + 1), all[i] = 99;                               \
        gex_Event_Wait(root == size                                                                       \
                           ? gex_Coll_ReduceToAllNB(tm, all, mine, DT, sizeof(T), COUNT, ops[op], 0, 0, 0) \
                           : gex_Coll_ReduceToOneNB(tm, root, all, mine, DT, sizeof(T), COUNT, ops[op], 0, 0, 0)); \
        for (int i = 0; i < COUNT; i++) CHECK(all[i] == (root == size || root == me ? expected[op] : 99)); \
      }                                                                                                   \
  } while (0)

/* Joins texts in order: not commutative, longer than a step. */
typedef struct {
  int len;
  char text[20000];
} Text;
static void append(const void *left, void *right, size_t count, const void *cdata) {
  const Text *x = (const Text *)left;
  Text *y = (Text *)right;
  CHECK(cdata == &client);
  for (size_t i = 0; i < count; i++) {
    Text joined = x[i];
    memcpy(joined.text + joined.len, y[i].text, (size_t)y[i].len);
    joined.len += y[i].len;
    y[i] = joined;
  }
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  overlapping();
  broadcasts();
  REDUCE(GEX_DT_I32, int32_t, 3);
  REDUCE(GEX_DT_U32, uint32_t, 5000);
  REDUCE(GEX_DT_I64, int64_t, 1);
  REDUCE(GEX_DT_U64, uint64_t, 4000);
  REDUCE(GEX_DT_FLT, float, 17);
  REDUCE(GEX_DT_DBL, double, 2001);
  uint32_t bits = 1u << me;
  gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, &bits, &bits, GEX_DT_U32, 4, 1, GEX_OP_OR, 0, 0, 0));
  CHECK(bits == (1u << size) - 1);
  static Text texts[3];
  for (int i = 0; i < 3; i++) texts[i].len = 1, texts[i].text[0] = (char)('a' + me + i);
  gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, texts, texts, GEX_DT_USER, sizeof(Text), 3, GEX_OP_USER_NC, append, &client, 0));
  for (int i = 0; i < 3; i++) {
    CHECK(texts[i].len == (int)size);
    for (gex_Rank_t rank = 0; rank < size; rank++) CHECK(texts[i].text[rank] == (char)('a' + rank + i));
  }
  return done();
}
