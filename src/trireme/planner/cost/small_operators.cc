#include "trireme/planner/cost/small_operators.h"

#include <algorithm>
#include <cmath>

#include "trireme/config/resolve/resolve_towers.h"
#include "trireme/families/hvjepa/model.h"
#include "trireme/families/jepa/model.h"

namespace trireme::planner {
namespace {

SmallOperators small_operators_of(double forward, double backward, double bytes = 0) {
  SmallOperators all;
  if (forward > 0) all.forward.push_back(operators(bytes, forward));
  if (backward > 0) all.backward.push_back(operators(0, backward));
  return all;
}

// blocks/towers/scorers and texture: colours, edges and places of every pixel as 13 channels, with their means,
// deviations and the entropy over 32 bins; scores. The share of every region takes 60 bisections of nine operators
// each.
SmallOperators scorers(const config::Job& job) {
  constexpr double kTextureSide = 256;                     // towers/texture.h
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

// Clips of a micro-batch, with their masked views or without.
double clips_of(const config::Job& job, bool views) {
  return static_cast<double>(job.run.micro_batch * (views ? model::kMasks : 1));
}

// blocks/jepa/video_chunks: neighbours, routers, trees by doubling of their reach, and chunks pooled over their rows.
SmallOperators chunks(const config::Job& job, bool teacher) {
  const double tokens = static_cast<double>(model::patch_grid(job.vision).tokens());
  const double reach = std::ceil(std::log2(std::max(2.0, clips_of(job, !teacher) * tokens)));
  const double forward = 125 + reach + (teacher ? 14 : 20);
  return small_operators_of(forward, teacher ? 0 : 100);
}

// blocks/jepa/vicreg_loss: views are pooled one by one, and chunks matched sample by sample, to and fro. Most operators have
// two operands, each with a gradient.
SmallOperators vicreg(const config::Job& job) {
  constexpr double kOfView = 5, kOfSample = 42, kOfLoss = 30, kLosses = 5;
  const auto samples = static_cast<double>(config::samples_of_loss(job));
  const double forward = samples * (model::kMasks * kOfView + kOfSample) + kLosses * kOfLoss + 20;
  return small_operators_of(forward, 2 * forward);
}

}  // namespace

// Places of regions' tokens by level, and positions of each image's tokens region by region (blocks/jepa/regions).
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

// The first block of a tower computes the places of chunks, and the predictor's those of targets, mask by mask. Every block
// widens heads by a channel for the sizes of chunks.
SmallOperators hvjepa_operators(const config::Job& job, std::string_view node) {
  constexpr double kPlaces = 15, kTurns = 30, kOfMask = 4, kWidened = 20;
  const double packing = 2 * kPlaces + kOfMask * clips_of(job, true);
  if (node == "chunk") return chunks(job, false);
  if (node == "teacher.chunk") return chunks(job, true);
  if (node == "vicreg") return vicreg(job);
  if (node == "block.0" || node == "teacher.block.0")
    return small_operators_of(kPlaces + kTurns + kWidened, kWidened);
  if (node == "predictor.block.0") return small_operators_of(packing + kTurns, 0);
  if (node.starts_with("block.") || node.starts_with("teacher.block."))
    return small_operators_of(kWidened, kWidened);
  if (node == "predictor.embed" || node == "loss")
    return small_operators_of(packing + kTurns, kTurns);
  return {};
}

// blocks/hnet: where sequences begin, routers by cosines, and chunks smoothed by a scan.
SmallOperators hnet_operators(const config::Job&, std::string_view node) {
  constexpr double kSequences = 8;
  if (node.ends_with(".route")) return small_operators_of(kSequences + 40, 40);
  if (node.ends_with(".join")) return small_operators_of(2 * kSequences + 50, 60);
  if (node.ends_with(".ratio")) return small_operators_of(kSequences + 20, 20);
  if (node != "embed" && node != "head") return small_operators_of(kSequences, 0);
  return {};
}

}  // namespace trireme::planner
