/* How long a segment may be: most of the machine's memory by default, of which the system gives what is used; less where the
 * program itself has set that before it began; and where the segments of all ranks are here.
 * run: default = exit 0
 * run: set = exit 0 */
#include "test.h"

/* Is what is mapped there left out of cores? */
static int is_left_out(const void *at) {
  FILE *const maps = fopen("/proc/self/smaps", "r");
  char line[512];
  unsigned long from, to;
  int is_there = 0, is_out = 0;
  CHECK(maps);
  while (fgets(line, sizeof line, maps)) {
    if (sscanf(line, "%lx-%lx ", &from, &to) == 2) is_there = from <= (uintptr_t)at && (uintptr_t)at < to;
    if (is_there && !strncmp(line, "VmFlags:", 8)) is_out = strstr(line, " dd") != NULL;
  }
  fclose(maps);
  return is_out;
}

int main(int argc, char **argv) {
  const int is_set = argc > 1 && !strcmp(argv[1], "set");
  const uintptr_t bytes = is_set ? 5 << 20 : (uintptr_t)200 << 20;
  gasnet_nodeinfo_t nodes[64];
  gasnet_seginfo_t segments[64];
  if (is_set) setenv("GASNET_MAX_SEGSIZE", "5M", 1);
  else unsetenv("GASNET_MAX_SEGSIZE");
  CHECK(!gex_Client_Init(&client, &ep, &tm, "TEST", &argc, &argv, 0));
  me = gex_TM_QueryRank(tm), size = gex_TM_QuerySize(tm);
  CHECK(gasnet_getMaxLocalSegmentSize() >= bytes && gasnet_getMaxGlobalSegmentSize() == gasnet_getMaxLocalSegmentSize());
  if (is_set) {
    CHECK(gasnet_getMaxLocalSegmentSize() == bytes);
    gex_System_SetVerboseErrors(0);
    CHECK(gex_Segment_Attach(&segment, tm, bytes + GASNET_PAGESIZE) == GASNET_ERR_BAD_ARG);
  }
  CHECK(!gex_Segment_Attach(&segment, tm, bytes));
  CHECK(gasnet_getNodeInfo(nodes, -1) == GASNET_ERR_BAD_ARG && !gasnet_getNodeInfo(nodes, 0));
  CHECK(!gasnet_getNodeInfo(nodes, (int)size) && !gasnet_getSegmentInfo(segments, (int)size));
  for (gex_Rank_t rank = 0; rank < size; rank++) {
    void *local = NULL;
    CHECK(!gex_Segment_QueryBound(tm, rank, NULL, &local, NULL));
    CHECK(nodes[rank].host == nodes[0].host && nodes[rank].supernode == nodes[0].supernode);
    CHECK((char *)segments[rank].addr + nodes[rank].offset == local && segments[rank].size == bytes);
    CHECK(is_left_out(local) && is_left_out((char *)local + bytes - 1));
  }
  /* The ends can be used. */
  char *const mine = base_of(me);
  mine[0] = 1, mine[bytes - 1] = (char)(me + 2);
  meet();
  for (gex_Rank_t rank = 0; rank < size; rank++) CHECK(((char *)segments[rank].addr + nodes[rank].offset)[bytes - 1] == (char)(rank + 2));
  return done();
}
