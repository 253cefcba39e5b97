#include <fmt/format.h>

#include "trireme/planner/cost/families.h"

namespace trireme::planner {
namespace {

std::string tiles_note(const config::Job& job, const ExpectedShare& share) {
  if (share.of("projector") == 1) return "";
  return fmt::format(
      "time is priced at {:.0f} % of the tiles of vlm.max_tiles={}, as if all of "
      "their grids were as likely; memory at all of them",
      100 * share.of("projector"), job.vlm.max_tiles);
}

}  // namespace

FamilyPrices vlm_prices() { return {.shares = tile_shares, .note = tiles_note}; }

}  // namespace trireme::planner
