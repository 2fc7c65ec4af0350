/* Red team, round 2, part B: segments of a program's own memory. On eabe526c a second segment that has a page of the first
 * takes it away: what the owner stores is not what others read; and lengths wrap.
 * ranks: 1
 * run: neighbours = exit 0
 * run: overlap = says gex_Segment_Create
 * run: long = says gex_Segment_Create */
#include "test.h"

#include <string.h>
#include <sys/mman.h>

int main(int argc, char **argv) {
  const char *const what = argc > 1 ? argv[1] : "";
  gex_Segment_t first, second;
  gex_EP_t mine;
  CHECK(!gex_Client_Init(&client, &ep, &tm, "TEST", &argc, &argv, 0));
  me = gex_TM_QueryRank(tm), size = gex_TM_QuerySize(tm), mine = ep;
  char *const memory = (char *)mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  /* Two objects of a program, as malloc gives them: 200 bytes in one page. */
  CHECK(!gex_Segment_Create(&first, client, memory + 100, 200, GEX_MK_HOST, 0));
  CHECK(!gex_EP_BindSegment(ep, first, 0));
  CHECK(!gex_EP_PublishBoundSegment(tm, &mine, 1, 0));
  if (!strcmp(what, "neighbours")) {
    CHECK(!gex_Segment_Create(&second, client, memory + 1000, 200, GEX_MK_HOST, 0));
  } else if (!strcmp(what, "overlap")) {
    gex_Segment_Create(&second, client, memory, 4096, GEX_MK_HOST, 0);
  } else {
    CHECK(gex_Segment_Create(&second, client, memory + 8192 + 100, (size_t)-1, GEX_MK_HOST, 0));
  }
  char got = 0;
  memory[150] = 42;
  gex_RMA_GetBlocking(tm, &got, me, memory + 150, 1, 0);
  CHECK(got == 42);
  return done();
}
