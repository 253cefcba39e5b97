#include "trireme/families/vlm/prices.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "trireme/families/hvjepa/prices.h"
#include "trireme/families/vlm/model.h"
#include "trireme/formats/tiling.h"
#include "trireme/planner/cost/families.h"

namespace trireme::planner {

Shares tower_shares(double share, double fullest) {
  const auto of = [share](std::string_view node) {
    const bool tower =
        node.starts_with("vision.") || node.starts_with("deepstack.") || node == "projector";
    return tower ? share : 1;
  };
  return {.of = of, .varies = share < 1, .fullest = fullest};
}

namespace {

// Tiles of an image, in addition to the one of the whole image.
double mean_tiles(std::int64_t most) {
  const std::vector<formats::TileGrid> grids = formats::tile_grids(most);
  double sum = 0;
  for (const formats::TileGrid& grid : grids) sum += static_cast<double>(grid.tiles());
  return grids.empty() ? 0 : sum / static_cast<double>(grids.size());
}

// The mean over all grids, unless samples are packed into rows.
Shares tile_shares(const config::Job& job) {
  if (model::sees_clips(job)) return frozen_tower_shares(job);
  if (job.vlm.pack) return {};
  return tower_shares(
      (1 + mean_tiles(job.vlm.max_tiles)) / (1 + static_cast<double>(job.vlm.max_tiles)), 1.2);
}

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
