/* Segments that are made and bound by the program: of the library's memory, and of the program's own. */
#include "test.h"
#include <gasnet_ratomic.h>
#include <gasnet_vis.h>

enum { HANDLER = 170, BYTES = 5 * GASNET_PAGESIZE };
static unsigned char own[BYTES + 2 * GASNET_PAGESIZE];
static int landed;
static void handler(gex_Token_t token, void *buf, size_t n) {
  (void)token;
  /* The address is the program's. */
  CHECK(n == 16 && (char *)buf == (char *)gex_Segment_QueryAddr(segment) + 64 && !memcmp(buf, "sixteen letters", 16));
  landed++;
}

int main(int argc, char **argv) {
  gex_AM_Entry_t table[] = {{HANDLER, (gex_AM_Fn_t)handler, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 0, NULL, "handler"}};
  gex_Segment_t other, big = GEX_SEGMENT_INVALID;
  CHECK(!gex_Client_Init(&client, &ep, &tm, "TEST", &argc, &argv, GEX_FLAG_DEFER_THREADS));
  me = gex_TM_QueryRank(tm), size = gex_TM_QuerySize(tm);
  unsigned int threads = 1;
  const gex_ProgressThreadInfo_t *info;
  CHECK(!gex_System_QueryProgressThreads(client, &threads, &info, 0) && !threads);
  CHECK(!gex_EP_RegisterHandlers(ep, table, 1));
  /* No segment so far, at any rank. */
  uintptr_t len = 1;
  gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, size - 1, NULL, NULL, &len, 0));
  CHECK(!len && gex_EP_QuerySegment(ep) == GEX_SEGMENT_INVALID && gex_Segment_QueryBound(tm, me, NULL, NULL, NULL));
  void *owner = own, *here = &len;
  len = 4711;
  CHECK(gex_Segment_QueryBound(tm, size - 1, &owner, &here, &len) && owner == own && here == &len && len == 4711);
  /* Endpoints without a segment, and none, may be published. */
  CHECK(!gex_EP_PublishBoundSegment(tm, &ep, 1, 0) && !gex_EP_PublishBoundSegment(tm, NULL, 0, 0));
  CHECK(gex_Segment_QueryBound(tm, size - 1, &owner, &here, &len) && len == 4711);
  meet();
  /* One of the program's memory that is given back, and one that is too long. */
  unsigned char *const lent = (unsigned char *)malloc(300000);
  memset(lent, 7, 300000);
  CHECK(!gex_Segment_Create(&other, client, lent + 100, 200000, GEX_MK_HOST, 0));
  CHECK(gex_Segment_QueryAddr(other) == lent + 100 && gex_Segment_QuerySize(other) == 200000);
  /* What is no endpoint, no segment or a flag binds nothing. */
  gex_System_SetVerboseErrors(0);
  CHECK(gex_EP_BindSegment(GEX_EP_INVALID, other, 0) == GASNET_ERR_BAD_ARG && gex_EP_BindSegment((gex_EP_t)(void *)&len, other, 0) == GASNET_ERR_BAD_ARG);
  CHECK(gex_EP_BindSegment(ep, GEX_SEGMENT_INVALID, 0) == GASNET_ERR_BAD_ARG && gex_EP_BindSegment(ep, other, 1) == GASNET_ERR_BAD_ARG);
  CHECK(gex_EP_QuerySegment(ep) == GEX_SEGMENT_INVALID);
  gex_System_SetVerboseErrors(1);
  gex_Segment_SetCData(other, own);
  CHECK(gex_Segment_QueryCData(other) == own && gex_Segment_QueryClient(other) == client);
  lent[5000] = 8;
  gex_Segment_Destroy(other, 0);
  CHECK(lent[5000] == 8 && lent[0] == 7 && lent[299999] == 7);
  memset(lent, 9, 300000);
  free(lent);
  gex_System_SetVerboseErrors(0);
  CHECK(gex_Segment_Create(&big, client, NULL, (uintptr_t)1 << 45, GEX_MK_HOST, 0) == GASNET_ERR_RESOURCE && !big);
  CHECK(gex_Segment_Create(&big, client, NULL, 0, GEX_MK_HOST, 0) == GASNET_ERR_BAD_ARG);
  /* Every third rank lends memory that begins anywhere, every third whole pages, the others none. */
  unsigned char *const mine = me % 3 == 0 ? own + 1000 : me % 3 == 1 ? NULL : own + GASNET_PAGESIZE - (uintptr_t)own % GASNET_PAGESIZE;
  for (size_t i = 0; i < sizeof own; i++) own[i] = (unsigned char)(i + me);
  CHECK(!gex_Segment_Create(&other, client, NULL, GASNET_PAGESIZE, GEX_MK_HOST, 0));
  CHECK(!gex_Segment_Create(&segment, client, mine, BYTES, GEX_MK_HOST, 0));
  CHECK(segment != other && gex_Segment_QuerySize(segment) == BYTES && (!mine || gex_Segment_QueryAddr(segment) == mine));
  for (size_t i = 0; i < sizeof own; i++) CHECK(own[i] == (unsigned char)(i + me));
  CHECK(gex_EP_BindSegment(ep, GEX_SEGMENT_INVALID, 0) == GASNET_ERR_BAD_ARG && !gex_EP_BindSegment(ep, segment, 0));
  CHECK(gex_EP_BindSegment(ep, other, 0) == GASNET_ERR_RESOURCE);
  CHECK(gex_EP_QuerySegment(ep) == segment && base_of(me) == (char *)gex_Segment_QueryAddr(segment));
  unsigned char *const base = (unsigned char *)base_of(me);
  for (size_t i = 0; i < BYTES; i++) base[i] = (unsigned char)(3 * i + me);
  CHECK(!gex_EP_PublishBoundSegment(tm, &ep, 1, 0));
  CHECK(gex_Segment_Attach(&other, tm, GASNET_PAGESIZE) == GASNET_ERR_RESOURCE);
  /* Each rank works in its right neighbour's. */
  const gex_Rank_t to = (me + 1) % size;
  char *const there = base_of(to);
  void *local;
  gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, to, NULL, &local, &len, GEX_FLAG_IMMEDIATE));
  CHECK(len == BYTES && ((unsigned char *)local)[BYTES - 1] == (unsigned char)(3 * (BYTES - 1) + to));
  unsigned char got[BYTES];
  CHECK(!gex_RMA_GetBlocking(tm, got, to, there, BYTES, 0));
  for (size_t i = 0; i < BYTES; i++) CHECK(got[i] == (unsigned char)(3 * i + to));
  meet();
  CHECK(!gex_RMA_PutBlocking(tm, to, there + BYTES - 8, "rightly", 8, 0));
  CHECK(!gex_AM_RequestLong0(tm, to, HANDLER, "sixteen letters", 16, there + 64, GEX_EVENT_NOW, 0));
  void *const from[] = {got, got + 100}, *const at[] = {there + 128, there + 256};
  CHECK(!gex_VIS_IndexedPutBlocking(tm, to, 2, at, 8, 2, from, 8, 0));
  gex_AD_t ad;
  uint64_t was;
  gex_RMA_PutBlockingVal(tm, to, there + 512 - (uintptr_t)there % 8, 40, 8, 0);
  gex_AD_Create(&ad, tm, GEX_DT_U64, GEX_OP_FADD, 0);
  gex_Event_Wait(gex_AD_OpNB_U64(ad, &was, to, there + 512 - (uintptr_t)there % 8, GEX_OP_FADD, 2, 0, 0));
  gex_AD_Destroy(ad);
  GASNET_BLOCKUNTIL(landed);
  meet();
  CHECK(was == 40 && *(uint64_t *)(base + 512 - (uintptr_t)base % 8) == 42 && !memcmp(base + BYTES - 8, "rightly", 8));
  CHECK(base[128] == (unsigned char)me && base[256] == (unsigned char)(300 + me));
  if (mine) CHECK(own[0] == (unsigned char)me && own[sizeof own - 1] == (unsigned char)(sizeof own - 1 + me));
  return done();
}
