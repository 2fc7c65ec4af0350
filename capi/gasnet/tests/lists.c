/* Vector, indexed and strided puts and gets; what a put tells its target. */
#include "test.h"
#include <gasnet_vis.h>

static int notes;
static char noted[16];
static void note(gex_Token_t token, void *buf, size_t n) {
  gex_Token_Info_t info;
  gex_Token_Info(token, &info, GEX_TI_ALL);
  CHECK(!info.gex_is_req && n <= sizeof noted);
  memcpy(noted, buf, n);
  notes++;
}

int main(int argc, char **argv) {
  gex_AM_Entry_t table[] = {{130, (gex_AM_Fn_t)note, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 0, NULL, "note"}};
  static char out[1000], in[1000];
  start(&argc, &argv);
  CHECK(!gex_EP_RegisterHandlers(ep, table, 1));
  for (int i = 0; i < 1000; i++) out[i] = (char)(i * 7 + me);
  meet();
  for (gex_Rank_t to = 0; to < size; to++) {
    char *const there = base_of(to) + 10000 * me;
    /* Pieces of other lengths on each side. */
    gex_Memvec_t source[] = {{out, 100}, {out + 300, 0}, {out + 500, 77}, {out + 900, 23}};
    gex_Memvec_t target[] = {{there + 400, 150}, {there, 50}};
    gex_Memvec_t all[] = {{in, 200}};
    memset(in, 0, sizeof in);
    CHECK(!gex_VIS_VectorPutBlocking(tm, to, 2, target, 4, source, 0));
    gex_Event_Wait(gex_VIS_VectorGetNB(tm, 1, all, to, 2, target, 0));
    CHECK(!memcmp(in, out, 100) && !memcmp(in + 100, out + 500, 77) && !memcmp(in + 177, out + 900, 23));
    void *sources[] = {out, out + 200, out + 40}, *targets[] = {there + 60, there}, *one[] = {in};
    CHECK(!gex_VIS_IndexedPutNBI(tm, to, 2, targets, 30, 3, sources, 20, 0));
    gex_NBI_Wait(GEX_EC_PUT, 0);
    CHECK(!gex_VIS_IndexedGetBlocking(tm, 1, one, 60, to, 2, targets, 30, 0));
    CHECK(!memcmp(in, out, 20) && !memcmp(in + 20, out + 200, 20) && !memcmp(in + 40, out + 40, 20));
    /* A matrix of 5 rows and 7 columns of 4 bytes, transposed there, mirrored back. */
    const size_t counts[] = {7, 5};
    const ptrdiff_t rows[] = {4, 28}, columns[] = {20, 4}, mirrored[] = {-4, -28};
    CHECK(!gex_VIS_StridedPutBlocking(tm, to, there, columns, out, rows, 4, counts, 2, 0));
    for (int row = 0; row < 5; row++)
      for (int column = 0; column < 7; column++) {
        CHECK(!gex_RMA_GetBlocking(tm, in, to, there + 20 * column + 4 * row, 4, 0));
        CHECK(!memcmp(in, out + 28 * row + 4 * column, 4));
      }
    gex_Event_Wait(gex_VIS_StridedGetNB(tm, in + 136, mirrored, to, there, columns, 4, counts, 2, 0));
    for (int i = 0; i < 35; i++) CHECK(!memcmp(in + 136 - 4 * i, out + 4 * i, 4));
    const size_t nothing[] = {7, 0};
    CHECK(!gex_VIS_StridedPutBlocking(tm, to, NULL, columns, NULL, rows, 4, nothing, 2, 0));
    CHECK(!gex_VIS_StridedPutBlocking(tm, to, there, NULL, out, NULL, 90, NULL, 0, 0));
    CHECK(!gex_RMA_GetBlocking(tm, in, to, there, 90, 0) && !memcmp(in, out, 90));
    gex_VIS_SetPeerCompletionHandler(130, "hello", 6, 0);
    CHECK(!gex_VIS_IndexedPutBlocking(tm, (me + to) % size, 1, (void *[]){base_of((me + to) % size) + 10000 * me}, 8, 1, sources, 8, 0));
    GASNET_BLOCKUNTIL(notes == (int)to + 1); /* one in each round */
    CHECK(!strcmp(noted, "hello"));
    gex_VIS_SetPeerCompletionHandler(130, "lost", 5, 0);
    gex_VIS_SetPeerCompletionHandler(0, NULL, 0, 0);
    CHECK(!gex_VIS_IndexedPutBlocking(tm, to, 1, targets, 8, 1, sources, 8, 0));
    meet();
  }
  CHECK(notes == (int)size);
  return done();
}
