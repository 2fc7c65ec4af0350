/* Remote atomics: each operation of each type, inlined, by its number and in the library (a segment's last bytes, ranks of the
 * job), and counters that all ranks step. */
#include "test.h"
#include <gasnet_ratomic.h>

#define BOTH(op) GEX_OP_##op | GEX_OP_F##op
#define ARITHMETIC                                                                                       \
  (BOTH(ADD) | BOTH(SUB) | BOTH(MULT) | BOTH(MIN) | BOTH(MAX) | BOTH(INC) | BOTH(DEC) | GEX_OP_SET | GEX_OP_GET | \
   GEX_OP_SWAP | BOTH(CAS))
#define BITS (BOTH(AND) | BOTH(OR) | BOTH(XOR))

#define ONE(DT, T, op, operand1, operand2, expected)                                                    \
  do {                                                                                                  \
    T got = 0;                                                                                          \
    const gex_OP_t fetching = GEX_OP_TO_FETCHING(op);                                                   \
    volatile gex_OP_t unknown = op, unknown_fetching = fetching;                                        \
    CHECK(GEX_OP_TO_NONFETCHING(fetching) == op);                                                       \
    gex_Event_Wait(gex_AD_OpNB_##DT(ad, NULL, to, at, GEX_OP_SET, 12, 0, GEX_FLAG_AD_REL));             \
    gex_Event_Wait(gex_AD_OpNB_##DT(ad, &got, to, at, fetching, operand1, operand2, 0));                \
    CHECK(got == 12);                                                                                   \
    CHECK(!gex_AD_OpNBI_##DT(ad, &got, to, at, GEX_OP_GET, 0, 0, GEX_FLAG_AD_ACQ));                     \
    gex_NBI_Wait(GEX_EC_GET, 0);                                                                        \
    CHECK(got == (T)(expected));                                                                        \
    gex_Event_Wait(gex_AD_OpNB_##DT(ad, NULL, to, at, GEX_OP_SET, 12, 0, 0));                           \
    CHECK(!gex_AD_OpNBI_##DT(ad, NULL, to, at, op, operand1, operand2, end ? GEX_FLAG_RANK_IS_JOBRANK : 0)); \
    gex_NBI_Wait(GEX_EC_RMW | GEX_EC_PUT, 0);                                                           \
    gex_Event_Wait(gex_AD_OpNB_##DT(ad, &got, to, at, GEX_OP_GET, 0, 0, 0));                            \
    CHECK(got == (T)(expected));                                                                        \
    gex_Event_Wait(gex_AD_OpNB_##DT(ad, NULL, to, at, GEX_OP_SET, 12, 0, 0));                           \
    gex_Event_Wait(gex_AD_OpNB_##DT(ad, &got, to, at, unknown_fetching, operand1, operand2, 0));        \
    CHECK(got == 12);                                                                                   \
    gex_Event_Wait(gex_AD_OpNB_##DT(ad, &got, to, at, GEX_OP_SWAP, 12, 0, 0));                          \
    CHECK(got == (T)(expected));                                                                        \
    gex_Event_Wait(gex_AD_OpNB_##DT(ad, NULL, to, at, unknown, operand1, operand2, 0));                 \
    gex_Event_Wait(gex_AD_OpNB_##DT(ad, &got, to, at, GEX_OP_GET, 0, 0, 0));                            \
    CHECK(got == (T)(expected));                                                                        \
  } while (0)

#define TYPE(DT, T, extra, more)                                                                        \
  do {                                                                                                  \
    gex_AD_t ad;                                                                                        \
    gex_AD_Create(&ad, tm, GEX_DT_##DT, ARITHMETIC | extra, GEX_FLAG_AD_FAVOR_MY_NBRHD);                \
    CHECK(gex_AD_QueryTM(ad) == tm && gex_AD_QueryDT(ad) == GEX_DT_##DT && gex_AD_QueryOps(ad) == (ARITHMETIC | extra)); \
    for (gex_Rank_t to = 0; to < size; to++)                                                            \
      for (int end = 0; end < 2; end++) {                                                               \
      void *const at = base_of(to) + (end ? (1 << 20) - 8 * (1 + me) : 64 * me);                        \
      ONE(DT, T, GEX_OP_ADD, 5, 0, 17);                                                                 \
      ONE(DT, T, GEX_OP_SUB, 5, 0, 7);                                                                  \
      ONE(DT, T, GEX_OP_SUB, 13, 0, (T)12 - (T)13);                                                     \
      ONE(DT, T, GEX_OP_MULT, 3, 0, 36);                                                                \
      ONE(DT, T, GEX_OP_MIN, 3, 0, 3);                                                                  \
      ONE(DT, T, GEX_OP_MAX, 3, 0, 12);                                                                 \
      ONE(DT, T, GEX_OP_INC, 0, 0, 13);                                                                 \
      ONE(DT, T, GEX_OP_DEC, 0, 0, 11);                                                                 \
      ONE(DT, T, GEX_OP_SET, 99, 0, 99);                                                                \
      ONE(DT, T, GEX_OP_CAS, 12, 50, 50);                                                               \
      ONE(DT, T, GEX_OP_CAS, 13, 50, 12);                                                               \
      more                                                                                              \
    }                                                                                                   \
    T *const counter = (T *)(base_of(0) + (1 << 18));                                                   \
    T was = 0;                                                                                          \
    meet();                                                                                             \
    if (!me) gex_Event_Wait(gex_AD_OpNB_##DT(ad, NULL, 0, counter, GEX_OP_SET, 0, 0, 0));               \
    meet();                                                                                             \
    for (int i = 0; i < 2000; i++)                                                                      \
      gex_Event_Wait(gex_AD_OpNB_##DT(ad, &was, 0, counter, i % 2 ? GEX_OP_FINC : GEX_OP_FADD, 1, 0, 0)); \
    meet();                                                                                             \
    gex_Event_Wait(gex_AD_OpNB_##DT(ad, &was, 0, counter, GEX_OP_GET, 0, 0, 0));                        \
    CHECK(was == (T)(2000 * size));                                                                     \
    meet();                                                                                             \
    gex_AD_Destroy(ad);                                                                                 \
  } while (0)

#define INTEGER(DT, T)                                                                                  \
  ONE(DT, T, GEX_OP_AND, 10, 0, 8);                                                                     \
  ONE(DT, T, GEX_OP_OR, 3, 0, 15);                                                                      \
  ONE(DT, T, GEX_OP_XOR, 6, 0, 10);
#define SIGNED(DT, T) INTEGER(DT, T) ONE(DT, T, GEX_OP_MIN, -3, 0, -3); ONE(DT, T, GEX_OP_MAX, -3, 0, 12);

int main(int argc, char **argv) {
  start(&argc, &argv);
  TYPE(I32, int32_t, BITS, SIGNED(I32, int32_t));
  TYPE(U32, uint32_t, BITS, INTEGER(U32, uint32_t));
  TYPE(I64, int64_t, BITS, SIGNED(I64, int64_t));
  TYPE(U64, uint64_t, BITS, INTEGER(U64, uint64_t));
  TYPE(FLT, float, 0, ;);
  TYPE(DBL, double, 0, ONE(DBL, double, GEX_OP_MULT, 0.5, 0, 6.0););
  return done();
}
