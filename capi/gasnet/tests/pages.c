/* Segments of a program's own memory: two that have a page in common, in any order of their ends; and what is no memory for a
 * segment: bytes of another, the library's, the stack, pages that are half another's, lengths that wrap.
 * ranks: 1
 * run: neighbours = exit 0
 * run: ends 0 = exit 0
 * run: ends 1 = exit 0
 * run: ends 2 = exit 0
 * run: many = exit 0
 * run: overlap = says gex_Segment_Create
 * run: inside = says gex_Segment_Create
 * run: half = says gex_Segment_Create
 * run: before = says gex_Segment_Create
 * run: library = says gex_Segment_Create
 * run: stack = says gex_Segment_Create
 * run: long = says gex_Segment_Create
 * run: rounds = says gex_Segment_Create */
#include "test.h"

#include <string.h>
#include <sys/mman.h>

/* Segments of 64 bytes, made and ended in an order by chance. The bytes of each stay, whatever happens to its neighbours. */
static void many(char *memory) {
  enum { SLOTS = 200, BYTES = 64 };
  gex_Segment_t made[SLOTS] = {0};
  uint32_t dice = 12345;
  for (int round = 0; round < 3000; round++) {
    dice = dice * 1664525 + 1013904223;
    const int at = (int)(dice >> 8) % SLOTS;
    char *const mine = memory + at * BYTES;
    for (int i = 0; made[at] && i < BYTES; i++) CHECK(mine[i] == (char)(at + 1));
    if (made[at]) gex_Segment_Destroy(made[at], 0), made[at] = GEX_SEGMENT_INVALID;
    else CHECK(!gex_Segment_Create(&made[at], client, mine, BYTES, GEX_MK_HOST, 0));
    memset(mine, at + 1, BYTES);
  }
}

int main(int argc, char **argv) {
  const char *const what = argc > 1 ? argv[1] : "";
  gex_Segment_t first, second;
  gex_EP_t mine;
  CHECK(!gex_Client_Init(&client, &ep, &tm, "TEST", &argc, &argv, 0));
  me = gex_TM_QueryRank(tm), size = gex_TM_QuerySize(tm), mine = ep;
  char *const memory = (char *)mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  /* Two objects of a program, as malloc gives them: 200 bytes in one page. */
  if (!strcmp(what, "many")) {
    many(memory);
    return done();
  }
  CHECK(!gex_Segment_Create(&first, client, memory + 100, 200, GEX_MK_HOST, 0));
  CHECK(!gex_EP_BindSegment(ep, first, 0));
  CHECK(!gex_EP_PublishBoundSegment(tm, &mine, 1, 0));
  if (!strcmp(what, "neighbours")) {
    CHECK(!gex_Segment_Create(&second, client, memory + 1000, 200, GEX_MK_HOST, 0));
  } else if (!strcmp(what, "overlap")) {
    gex_Segment_Create(&second, client, memory, 4096, GEX_MK_HOST, 0);
  } else if (!strcmp(what, "ends")) {
    /* Three more: one in the page, two that have another one. They end in some order; the first stays. */
    gex_Segment_t more[3];
    CHECK(!gex_Segment_Create(&more[0], client, memory + 1000, 200, GEX_MK_HOST, 0));
    CHECK(!gex_Segment_Create(&more[1], client, memory + 8192, 100, GEX_MK_HOST, 0));
    CHECK(!gex_Segment_Create(&more[2], client, memory + 8192 + 100, 3000, GEX_MK_HOST, 0));
    memset(memory + 1000, 3, 200), memset(memory + 8192, 4, 3100);
    for (int i = 0; i < 3; i++) {
      gex_Segment_Destroy(more[(i + atoi(argv[2])) % 3], 0);
      memory[150] = (char)i;
      char got = 99;
      gex_RMA_GetBlocking(tm, &got, me, memory + 150, 1, 0);
      CHECK(got == i && memory[1100] == 3 && memory[8192] == 4 && memory[8192 + 3099] == 4);
    }
    /* Its pages are free again. */
    CHECK(!gex_Segment_Create(&second, client, memory + 8192 + 50, 5000, GEX_MK_HOST, 0));
  } else if (!strcmp(what, "inside")) {
    gex_Segment_Create(&second, client, memory + 120, 20, GEX_MK_HOST, 0);
  } else if (!strcmp(what, "half")) {
    gex_Segment_Create(&second, client, memory + 1000, 8000, GEX_MK_HOST, 0);
  } else if (!strcmp(what, "before")) {
    gex_Segment_t third;
    CHECK(!gex_Segment_Create(&second, client, memory + 8192, 10, GEX_MK_HOST, 0));
    gex_Segment_Create(&third, client, memory + 5000, 3100 + 92 + 100, GEX_MK_HOST, 0);
  } else if (!strcmp(what, "library")) {
    gex_Segment_t third;
    CHECK(!gex_Segment_Create(&second, client, NULL, 8192, GEX_MK_HOST, 0));
    gex_Segment_Create(&third, client, gex_Segment_QueryAddr(second), 100, GEX_MK_HOST, 0);
  } else if (!strcmp(what, "stack")) {
    char local[300] = "in use";
    gex_Segment_Create(&second, client, local, sizeof local, GEX_MK_HOST, 0);
  } else if (!strcmp(what, "rounds")) {
    gex_Segment_Create(&second, client, memory + 8192, (uintptr_t)0 - (uintptr_t)(memory + 8192) - 1, GEX_MK_HOST, 0);
  } else {
    CHECK(gex_Segment_Create(&second, client, memory + 8192 + 100, (size_t)-1, GEX_MK_HOST, 0));
  }
  char got = 0;
  memory[150] = 42;
  gex_RMA_GetBlocking(tm, &got, me, memory + 150, 1, 0);
  CHECK(got == 42);
  return done();
}
