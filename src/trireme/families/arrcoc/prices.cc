#include "trireme/families/vlm/prices.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "trireme/families/arrcoc/model.h"
#include "trireme/planner/cost/families.h"

namespace trireme::planner {

namespace {

Shares region_shares(const config::Job& job) {
  // No image has more than its budget.
  return tower_shares(
      static_cast<double>(job.arrcoc.budget) / static_cast<double>(model::region_tower(job).tokens),
      1);
}

std::string regions_note(const config::Job& job, const ExpectedShare&) {
  return fmt::format(
      "time is priced at arrcoc.budget={} tokens an image; memory at the most that "
      "regions can have",
      job.arrcoc.budget);
}

// families/arrcoc/blocks_scorers and blocks_texture: colours, edges and places of every pixel as 13 channels, with their means,
// deviations and the entropy over 32 bins; scores. The share of every region takes 60 bisections of nine operators
// each.
SmallOperators scorers(const config::Job& job) {
  constexpr double kTextureSide = 256;                     // blocks_texture.h
  constexpr double kColours = 110, kColoursMoved = 370;    // operators; numbers of a pixel
  constexpr double kBins = 32, kOfBin = 5, kBinMoved = 9;  // entropy_of
  constexpr double kScores = 110, kBisections = 60, kOfBisection = 9, kShares = 25;
  if (job.arrcoc.allocation != config::Allocation::kLearned) return small_operators_of(kShares, 0);
  const double side = std::min(static_cast<double>(job.vision.image), kTextureSide);
  const double number = job.precision.compute == DType::kF64 ? 8 : 4;
  const double plane = static_cast<double>(job.run.micro_batch) * side * side * number;
  const double shares = (job.arrcoc.explore ? 2 : 1) * (kBisections * kOfBisection + kShares);
  return small_operators_of(kColours + kBins * kOfBin + kScores + shares, 2 * kScores,
                            (kColoursMoved + kBins * kBinMoved) * plane);
}

// Places of regions' tokens by level, and positions of each image's tokens region by region (blocks_regions).
SmallOperators arrcoc_operators(const config::Job& job, std::string_view node) {
  const auto images = static_cast<double>(job.run.micro_batch);
  const auto regions = static_cast<double>(job.arrcoc.grid * job.arrcoc.grid);
  const auto levels = static_cast<double>(job.arrcoc.most - job.arrcoc.least);
  if (node == "scorers") return scorers(job);
  if (node == "vision.embed") return small_operators_of(12 + 12 * levels, 0);
  if (node.starts_with("vision.block.")) return small_operators_of(40 + 12 * levels, 0);
  if (node == "splice") return small_operators_of(30 + 14 * levels, 30 + 14 * levels);
  if (node.starts_with("block.")) return small_operators_of(8 + images * regions * 16, 0);
  if (node == "head") return small_operators_of(30, 10);
  return {};
}

}  // namespace

FamilyPrices arrcoc_prices() {
  return {.shares = region_shares, .note = regions_note, .small_operators = arrcoc_operators};
}

}  // namespace trireme::planner
