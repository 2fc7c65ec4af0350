/* Queries of the job and of its objects; what clients keep in them; arguments of main.
 * run: one two = exit 0 */
#include "test.h"

int main(int argc, char **argv) {
  gex_Client_t c1;
  gex_EP_t e1;
  gex_TM_t t1;
  gex_Segment_t s1;
  gex_RankInfo_t *ranks;
  gex_Rank_t count, index, sets[4];
  CHECK(argc == 3 && !strcmp(argv[1], "one") && !strcmp(argv[2], "two"));
  start(&argc, &argv);
  CHECK(gex_System_QueryJobRank() == me && gex_System_QueryJobSize() == size);
  CHECK(gasnet_mynode() == me && gasnet_nodes() == size && me < size);
  CHECK(size == (gex_Rank_t)atoi(gasnet_getenv("GASNET_PSHM_NODES")));
  CHECK(!strcmp(gex_Client_QueryName(client), "TEST") && gex_Client_QueryFlags(client) == GEX_FLAG_USES_GASNET1);
  CHECK(gex_TM_QueryClient(tm) == client && gex_TM_QueryEP(tm) == ep && gex_EP_QueryClient(ep) == client);
  CHECK(gex_EP_QuerySegment(ep) == segment && gex_Segment_QueryClient(segment) == client && !gex_EP_QueryIndex(ep));
  CHECK(gex_Segment_QuerySize(segment) == 1 << 20 && base_of(me) == (char *)gex_Segment_QueryAddr(segment));
  CHECK((uintptr_t)gex_Segment_QueryAddr(segment) % GASNET_PAGESIZE == 0);
  gasnet_QueryGexObjects(&c1, &e1, &t1, &s1);
  CHECK(c1 == client && e1 == ep && t1 == tm && s1 == segment);
  CHECK(!gex_Client_QueryCData(client) && !gex_EP_QueryCData(ep) && !gex_TM_QueryCData(tm) && !gex_Segment_QueryCData(segment));
  gex_Client_SetCData(client, &c1), gex_EP_SetCData(ep, &e1), gex_TM_SetCData(tm, &t1), gex_Segment_SetCData(segment, &s1);
  CHECK(gex_Client_QueryCData(client) == &c1 && gex_EP_QueryCData(ep) == &e1);
  CHECK(gex_TM_QueryCData(tm) == &t1 && gex_Segment_QueryCData(segment) == &s1);
  gex_System_QueryNbrhdInfo(&ranks, &count, &index);
  CHECK(count == size && index == me && ranks[index].gex_jobrank == me);
  gex_System_QueryHostInfo(&ranks, &count, &index);
  CHECK(count == size && index == me);
  gex_System_QueryMyPosition(&sets[0], &sets[1], &sets[2], &sets[3]);
  CHECK(sets[0] == 1 && sets[1] == 0 && sets[2] == 1 && sets[3] == 0);
  CHECK(gex_TM_TranslateRankToJobrank(tm, me) == me && gex_TM_TranslateJobrankToRank(tm, size - 1) == size - 1);
  CHECK(!strcmp(gasnet_ErrorName(GASNET_ERR_BAD_ARG), "GASNET_ERR_BAD_ARG") && *gasnet_ErrorDesc(GASNET_OK));
  CHECK(gex_System_GetVerboseErrors() == 1);
  gex_System_SetVerboseErrors(0);
  CHECK(gex_Client_Init(&c1, &e1, &t1, "AGAIN", &argc, &argv, 0) == GASNET_ERR_RESOURCE);
  CHECK(gex_Segment_Attach(&s1, tm, 4096) == GASNET_ERR_RESOURCE && gex_Segment_Attach(&s1, tm, 100) == GASNET_ERR_BAD_ARG);
  CHECK(gex_EP_Create(&e1, client, GEX_EP_CAPABILITY_ALL, 0) == GASNET_ERR_RESOURCE);
  CHECK(gex_System_QueryMaxThreads() >= 1 && !gex_System_QueryHiddenAMConcurrencyLevel());
  return done();
}
