/* Limits of payloads: symmetric, not growing with the number of arguments, at least 512. */
#include "test.h"

typedef size_t (*query)(gex_TM_t, gex_Rank_t, const gex_Event_t *, gex_Flags_t, unsigned);
int main(int argc, char **argv) {
  const query queries[] = {gex_AM_MaxRequestMedium, gex_AM_MaxReplyMedium, gex_AM_MaxRequestLong, gex_AM_MaxReplyLong};
  start(&argc, &argv);
  const size_t lubs[] = {gex_AM_LUBRequestMedium(), gex_AM_LUBReplyMedium(), gex_AM_LUBRequestLong(), gex_AM_LUBReplyLong()};
  for (int i = 0; i < 4; i++)
    for (gex_Rank_t rank = 0; rank < size; rank++) {
      size_t before = SIZE_MAX;
      for (unsigned args = 0; args <= gex_AM_MaxArgs(); args++) {
        const size_t max = queries[i](tm, rank, GEX_EVENT_NOW, 0, args);
        CHECK(max >= 512 && max <= before && max >= lubs[i]);
        CHECK(queries[i](tm, GEX_RANK_INVALID, GEX_EVENT_NOW, 0, args) <= max);
        before = max;
      }
    }
  CHECK(gasnet_AMMaxArgs() == 16 && gasnet_AMMaxMedium() == lubs[0]);
  CHECK(gasnet_AMMaxLongRequest() == lubs[2] && gasnet_AMMaxLongReply() == lubs[3]);
  return done();
}
