/* The longest payload of each number of arguments, fixed and negotiated, of the program's memory and of the library's, with each
 * way to know that it is free; and none at all. */
#include "test.h"

enum { ASK = 128, ANSWER = 150, MOST = 1 << 20 };
enum { PREPARED = 1, OF_LIBRARY = 2, WITH_EVENT = 4, IN_GROUP = 8, AT_ONCE = 16, MODES = 32 };
static unsigned char out[MOST], reply_out[MOST];
static char *bases[64];
static gex_Event_t replied = GEX_EVENT_INVALID;
static int answers;

static void fill(void *to, size_t n, unsigned mode) {
  for (size_t i = 0; i < n; i++) ((unsigned char *)to)[i] = (unsigned char)(i * 7 + n);
  if (n) *(unsigned char *)to = (unsigned char)mode;
}
static unsigned mode_of(const void *at, size_t n) {
  const unsigned char *const bytes = (const unsigned char *)at;
  for (size_t i = 1; i < n; i++) CHECK(bytes[i] == (unsigned char)(i * 7 + n));
  return n ? bytes[0] : 0;
}
static size_t least(size_t a, size_t b) { return a < b ? a : b; }

#define P0
#define P1 P0, gex_AM_Arg_t a1
#define P2 P1, gex_AM_Arg_t a2
#define P3 P2, gex_AM_Arg_t a3
#define P4 P3, gex_AM_Arg_t a4
#define P5 P4, gex_AM_Arg_t a5
#define P6 P5, gex_AM_Arg_t a6
#define P7 P6, gex_AM_Arg_t a7
#define P8 P7, gex_AM_Arg_t a8
#define P9 P8, gex_AM_Arg_t a9
#define P10 P9, gex_AM_Arg_t a10
#define P11 P10, gex_AM_Arg_t a11
#define P12 P11, gex_AM_Arg_t a12
#define P13 P12, gex_AM_Arg_t a13
#define P14 P13, gex_AM_Arg_t a14
#define P15 P14, gex_AM_Arg_t a15
#define P16 P15, gex_AM_Arg_t a16
#define V0
#define V1 V0, -1
#define V2 V1, -2
#define V3 V2, -3
#define V4 V3, -4
#define V5 V4, -5
#define V6 V5, -6
#define V7 V6, -7
#define V8 V7, -8
#define V9 V8, -9
#define V10 V9, -10
#define V11 V10, -11
#define V12 V11, -12
#define V13 V12, -13
#define V14 V13, -14
#define V15 V14, -15
#define V16 V15, -16
#define C0
#define C1 C0 CHECK(a1 == -1);
#define C2 C1 CHECK(a2 == -2);
#define C3 C2 CHECK(a3 == -3);
#define C4 C3 CHECK(a4 == -4);
#define C5 C4 CHECK(a5 == -5);
#define C6 C5 CHECK(a6 == -6);
#define C7 C6 CHECK(a7 == -7);
#define C8 C7 CHECK(a8 == -8);
#define C9 C8 CHECK(a9 == -9);
#define C10 C9 CHECK(a10 == -10);
#define C11 C10 CHECK(a11 == -11);
#define C12 C11 CHECK(a12 == -12);
#define C13 C12 CHECK(a13 == -13);
#define C14 C13 CHECK(a14 == -14);
#define C15 C14 CHECK(a15 == -15);
#define C16 C15 CHECK(a16 == -16);
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)

#define ARITY(n)                                                                                                      \
  static void answer_##n(gex_Token_t token, void *buf, size_t len P##n) {                                             \
    (void)token;                                                                                                      \
    C##n mode_of(buf, len);                                                                                           \
    answers++;                                                                                                        \
  }                                                                                                                   \
  static void ask_##n(gex_Token_t token, void *buf, size_t len P##n) {                                                \
    gex_Token_Info_t info;                                                                                            \
    const gex_TI_t all = gex_Token_Info(token, &info, GEX_TI_ALL);                                                    \
    C##n CHECK(all == GEX_TI_ALL && info.gex_is_req && info.gex_entry->gex_nargs == n);                               \
    const unsigned mode = mode_of(buf, len);                                                                          \
    const gex_Flags_t flags = mode & AT_ONCE ? GEX_FLAG_IMMEDIATE : 0;                                                \
    gex_Event_t *const lc = mode & WITH_EVENT ? &replied : GEX_EVENT_NOW;                                             \
    char *const to = bases[info.gex_srcrank];                                                                         \
    const size_t longest = info.gex_is_long ? gex_Token_MaxReplyLong(token, lc, flags, n)                             \
                                            : gex_Token_MaxReplyMedium(token, lc, flags, n);                          \
    const size_t size_of = len ? least(longest, info.gex_is_long ? len : MOST) : 0;                                   \
    if (mode & PREPARED) {                                                                                            \
      unsigned char *const own = mode & OF_LIBRARY ? NULL : reply_out;                                                \
      gex_Event_t *const its = own ? lc : NULL;                                                                       \
      const gex_AM_SrcDesc_t sd =                                                                                     \
          info.gex_is_long ? gex_AM_PrepareReplyLong(token, own, size_of, size_of, to, its, 0, n)                     \
                           : gex_AM_PrepareReplyMedium(token, own, size_of, size_of, its, 0, n);                      \
      CHECK(gex_AM_SrcDescSize(sd) == size_of && (!own || gex_AM_SrcDescAddr(sd) == own));                            \
      fill(gex_AM_SrcDescAddr(sd), size_of, mode);                                                                    \
      if (info.gex_is_long) gex_AM_CommitReplyLong##n(sd, ANSWER + n, size_of, to V##n);                              \
      else gex_AM_CommitReplyMedium##n(sd, ANSWER + n, size_of V##n);                                                 \
      return;                                                                                                         \
    }                                                                                                                 \
    fill(reply_out, size_of, mode);                                                                                   \
    const int is_late = info.gex_is_long                                                                              \
                            ? gex_AM_ReplyLong##n(token, ANSWER + n, reply_out, size_of, to, lc, flags V##n)          \
                            : gex_AM_ReplyMedium##n(token, ANSWER + n, reply_out, size_of, lc, flags V##n);           \
    CHECK(!is_late);                                                                                                  \
  }                                                                                                                   \
  static void request_##n(gex_Rank_t rank, int is_long, unsigned mode, size_t most) {                                 \
    gex_Event_t event = GEX_EVENT_NO_OP;                                                                              \
    gex_Event_t *lc = mode & WITH_EVENT ? &event : mode & IN_GROUP ? GEX_EVENT_GROUP : GEX_EVENT_NOW;                 \
    const gex_Flags_t flags = mode & AT_ONCE ? GEX_FLAG_IMMEDIATE : 0;                                                \
    char *const to = bases[rank];                                                                                     \
    const gex_Flags_t how = !(mode & PREPARED)   ? 0                                                                  \
                            : mode & OF_LIBRARY ? GEX_FLAG_AM_PREPARE_LEAST_ALLOC                                     \
                                                : GEX_FLAG_AM_PREPARE_LEAST_CLIENT;                                   \
    unsigned char *const own = mode & OF_LIBRARY ? NULL : out;                                                        \
    if ((mode & PREPARED) && !own) lc = NULL;                                                                         \
    const size_t longest = is_long ? gex_AM_MaxRequestLong(tm, rank, lc, flags | how, n)                              \
                                   : gex_AM_MaxRequestMedium(tm, rank, lc, flags | how, n);                           \
    const size_t len = least(longest, most);                                                                          \
    if (mode & PREPARED) {                                                                                            \
      gex_AM_SrcDesc_t sd;                                                                                            \
      while (!(sd = is_long ? gex_AM_PrepareRequestLong(tm, rank, own, len, len, to, lc, flags, n)                    \
                            : gex_AM_PrepareRequestMedium(tm, rank, own, len, len, lc, flags, n))) {                  \
        CHECK(flags);                                                                                                 \
        gasnet_AMPoll();                                                                                              \
      }                                                                                                               \
      CHECK(gex_AM_SrcDescSize(sd) == len && (!own || gex_AM_SrcDescAddr(sd) == own));                                \
      fill(gex_AM_SrcDescAddr(sd), len, mode);                                                                        \
      if (is_long) gex_AM_CommitRequestLong##n(sd, ASK + n, len, to V##n);                                            \
      else gex_AM_CommitRequestMedium##n(sd, ASK + n, len V##n);                                                      \
    } else {                                                                                                          \
      fill(out, len, mode);                                                                                           \
      while (is_long ? gex_AM_RequestLong##n(tm, rank, ASK + n, out, len, to, lc, flags V##n)                         \
                     : gex_AM_RequestMedium##n(tm, rank, ASK + n, out, len, lc, flags V##n)) {                        \
        CHECK(flags);                                                                                                 \
        gasnet_AMPoll();                                                                                              \
      }                                                                                                               \
    }                                                                                                                 \
    if (lc == &event) gex_Event_Wait(event);                                                                          \
    else if (lc == GEX_EVENT_GROUP) gex_NBI_Wait(GEX_EC_AM, 0);                                                       \
  }
EACH(ARITY)

#define ROW(n)                                                                                              \
  {ASK + n, (gex_AM_Fn_t)ask_##n, GEX_FLAG_AM_MEDLONG | GEX_FLAG_AM_REQUEST, n, NULL, "ask"},               \
      {ANSWER + n, (gex_AM_Fn_t)answer_##n, GEX_FLAG_AM_MEDLONG | GEX_FLAG_AM_REPLY, n, NULL, "answer"},
#define CALL(n)                                                       \
  for (int is_long = 0; is_long < 2; is_long++) {                     \
    request_##n(to, is_long, mode, n % 16 ? 100000 : MOST);           \
    wanted++;                                                         \
    GASNET_BLOCKUNTIL(answers == wanted);                             \
    if (!(mode & PREPARED)) {                                         \
      request_##n(to, is_long, 0, 0);                                 \
      wanted++;                                                       \
      GASNET_BLOCKUNTIL(answers == wanted);                           \
    }                                                                 \
  }

int main(int argc, char **argv) {
  gex_AM_Entry_t table[] = {EACH(ROW)};
  int wanted = 0;
  start(&argc, &argv);
  CHECK(!gex_EP_RegisterHandlers(ep, table, sizeof table / sizeof *table));
  for (gex_Rank_t rank = 0; rank < size; rank++) bases[rank] = base_of(rank);
  meet();
  /* One rank at a time, since all write to the same place. */
  for (gex_Rank_t turn = 0; turn < size; turn++) {
    if (turn == me)
      for (gex_Rank_t to = 0; to < size; to++)
        for (unsigned mode = 0; mode < MODES; mode++) {
          EACH(CALL)
        }
    meet();
    gex_Event_Wait(replied);
    replied = GEX_EVENT_INVALID;
  }
  return done();
}
