/* What has happened may be waited for anywhere, also in a handler: nothing is outstanding there. */
#include "test.h"

static int got;
static void looks(void) {
  gex_Event_t events[2] = {GEX_EVENT_INVALID, GEX_EVENT_INVALID};
  gex_NBI_Wait(GEX_EC_ALL, 0);
  CHECK(!gex_NBI_Test(GEX_EC_PUT, 0));
  gex_Event_Wait(GEX_EVENT_INVALID), gex_Event_WaitAll(events, 2, 0), gex_Event_WaitSome(events, 2, 0);
  CHECK(!gex_Event_Test(GEX_EVENT_INVALID) && !gex_Event_TestAll(events, 2, 0) && !gex_Event_TestSome(events, 2, 0));
  gasnet_wait_syncnbi_puts(), gasnet_wait_syncnbi_gets(), gasnet_wait_syncnbi_all();
  gasnet_wait_syncnb(GASNET_INVALID_HANDLE);
  got++;
}
static void on_request(gex_Token_t token) {
  looks();
  gex_AM_ReplyShort0(token, 201, 0);
}
static void on_reply(gex_Token_t token) {
  (void)token;
  looks();
}

int main(int argc, char **argv) {
  gex_AM_Entry_t table[] = {{200, (gex_AM_Fn_t)on_request, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, NULL},
                            {201, (gex_AM_Fn_t)on_reply, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0, NULL, NULL}};
  start(&argc, &argv);
  CHECK(!gex_EP_RegisterHandlers(ep, table, 2));
  meet();
  looks();
  for (gex_Rank_t to = 0; to < size; to++) gex_AM_RequestShort0(tm, to, 200, 0);
  GASNET_BLOCKUNTIL(got == 1 + 2 * (int)size);
  return done();
}
