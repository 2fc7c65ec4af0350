/* A domain of atomics is made without a wait: a rank goes on that came first, and the others answer it outside of the
 * library. Domains of one order, made while messages and other collectives are under way.
 * ranks: 2 3 4 */
#include "test.h"
#include <gasnet_ratomic.h>

static volatile int asked, answered;
static void ask(gex_Token_t token) {
  (void)token;
  asked = 1;
}
static void answer(gex_Token_t token) {
  (void)token;
  answered = 1;
}

int main(int argc, char **argv) {
  gex_AM_Entry_t table[] = {{200, (gex_AM_Fn_t)ask, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, NULL},
                            {201, (gex_AM_Fn_t)answer, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, NULL}};
  gex_AD_t first, ads[20];
  start(&argc, &argv);
  CHECK(!gex_EP_RegisterHandlers(ep, table, 2));
  meet();
  if (me == 0) {
    usleep(200000);
    gex_AM_RequestShort0(tm, 1, 200, 0);
    GASNET_BLOCKUNTIL(answered);
  }
  gex_AD_Create(&first, tm, GEX_DT_I32, GEX_OP_FADD | GEX_OP_GET, 0);
  /* It may be used at once, as others may make theirs later. */
  gex_Event_Wait(gex_AD_OpNB_I32(first, &(int32_t){0}, 0, base_of(0), GEX_OP_FADD, 1, 0, 0));
  if (me == 1) {
    GASNET_BLOCKUNTIL(asked);
    gex_AM_RequestShort0(tm, 0, 201, 0);
  }
  for (int i = 0; i < 20; i++) {
    gex_Event_t barrier = GEX_EVENT_INVALID;
    if (i % 3 == 0) barrier = gex_Coll_BarrierNB(tm, 0);
    gex_AD_Create(&ads[i], tm, GEX_DT_U64, GEX_OP_FADD, 0);
    gex_Event_Wait(barrier);
  }
  for (int i = 0; i < 20; i++) gex_AD_Destroy(ads[i]);
  meet();
  int32_t sum = 0;
  gex_Event_Wait(gex_AD_OpNB_I32(first, &sum, 0, base_of(0), GEX_OP_GET, 0, 0, 0));
  CHECK(sum == (int32_t)size);
  meet();
  gex_AD_Destroy(first);
  return done();
}
