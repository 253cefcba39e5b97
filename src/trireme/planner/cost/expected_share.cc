#include "trireme/planner/cost/expected_share.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/hash.h"
#include "trireme/config/hnet_stages.h"
#include "trireme/config/mask_rules.h"
#include "trireme/formats/tiling.h"
#include "trireme/model/families/arrcoc.h"
#include "trireme/model/families/vlm.h"

namespace trireme::planner {
namespace {

// How likely a block of `length` of `side` places covers each of them.
std::vector<double> covered(std::int64_t side, std::int64_t length) {
  std::vector<double> chance;
  const std::int64_t places = side - length + 1;
  for (std::int64_t at = 0; at < side; ++at) {
    const std::int64_t first = std::max<std::int64_t>(0, at - length + 1);
    const std::int64_t last = std::min(at, places - 1);
    chance.push_back(static_cast<double>(last - first + 1) / static_cast<double>(places));
  }
  return chance;
}

// Tiles of an image, in addition to the one of the whole image.
double mean_tiles(std::int64_t most) {
  const std::vector<formats::TileGrid> grids = formats::tile_grids(most);
  double sum = 0;
  for (const formats::TileGrid& grid : grids) sum += static_cast<double>(grid.tiles());
  return grids.empty() ? 0 : sum / static_cast<double>(grids.size());
}

constexpr int kAspects = 16;
constexpr double kLeastAspect = 0.75, kMostAspect = 1.5;

double aspect_of(int one) {
  return kLeastAspect + (kMostAspect - kLeastAspect) * (one + 0.5) / kAspects;
}

std::int64_t block_side(double squared, std::int64_t most) {
  return std::clamp<std::int64_t>(std::llrint(std::sqrt(squared)), 1, most);
}

}  // namespace

MaskShares cut_shares(std::int64_t side, std::int64_t blocks, double scale, std::int64_t samples) {
  constexpr std::int64_t kSamples = 256;  // of each aspect, in whole groups
  const std::int64_t groups = std::max<std::int64_t>(1, kSamples / samples), frame = side * side;
  const double tokens = std::floor(scale * static_cast<double>(frame));
  std::uint64_t drawn = 0;
  const auto below = [&](std::int64_t count) {
    return static_cast<std::int64_t>(trireme::mix(drawn++, 0) % static_cast<std::uint64_t>(count));
  };
  MaskShares sum;
  for (int one = 0; one < kAspects; ++one)
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::int64_t rows = block_side(tokens * aspect_of(one), side);
      const std::int64_t columns = block_side(tokens / aspect_of(one), side);
      std::int64_t seen = frame, hidden = frame;
      for (std::int64_t sample = 0; sample < samples; ++sample) {
        std::vector<bool> covered(static_cast<std::size_t>(frame));
        for (std::int64_t block = 0; block < blocks; ++block) {
          const std::int64_t top = below(side - rows + 1), left = below(side - columns + 1);
          for (std::int64_t row = top; row < top + rows; ++row)
            std::fill_n(covered.begin() + row * side + left, columns, true);
        }
        const std::int64_t own = std::ranges::count(covered, true);
        if (own == frame) continue;  // drawn again
        seen = std::min(seen, frame - own), hidden = std::min(hidden, own);
      }
      sum.seen += static_cast<double>(seen), sum.hidden += static_cast<double>(hidden);
    }
  const double all = static_cast<double>(kAspects * groups * frame);
  return {.seen = sum.seen / all, .hidden = sum.hidden / all};
}

double seen_of_frame(std::int64_t rows, std::int64_t columns, std::int64_t blocks, double scale) {
  const double tokens = std::floor(scale * static_cast<double>(rows * columns));
  double sum = 0;
  for (int one = 0; one < kAspects; ++one) {
    const double aspect = aspect_of(one);
    const std::vector<double> down = covered(rows, block_side(tokens * aspect, rows));
    const std::vector<double> across = covered(columns, block_side(tokens / aspect, columns));
    for (const double y : down)
      for (const double x : across) sum += std::pow(1 - x * y, static_cast<double>(blocks));
  }
  return sum / (kAspects * static_cast<double>(rows * columns));
}

double alone_in_frame(std::int64_t side, std::int64_t blocks, double scale) {
  constexpr std::int64_t kSamples = 64;  // of each aspect
  const double tokens = std::floor(scale * static_cast<double>(side * side));
  std::uint64_t drawn = 0;
  const auto below = [&](std::int64_t count) {
    return static_cast<std::int64_t>(trireme::mix(drawn++, 0) % static_cast<std::uint64_t>(count));
  };
  double alone = 0;
  for (int one = 0; one < kAspects; ++one)
    for (std::int64_t sample = 0; sample < kSamples; ++sample) {
      const std::int64_t rows = block_side(tokens * aspect_of(one), side);
      const std::int64_t columns = block_side(tokens / aspect_of(one), side);
      std::vector<bool> hidden(static_cast<std::size_t>(side * side));
      for (std::int64_t block = 0; block < blocks; ++block) {
        const std::int64_t top = below(side - rows + 1), left = below(side - columns + 1);
        for (std::int64_t row = top; row < top + rows; ++row)
          std::fill_n(hidden.begin() + row * side + left, columns, true);
      }
      const auto seen = [&](std::int64_t row, std::int64_t column) {
        return row >= 0 && column >= 0 && !hidden[row * side + column];
      };
      for (std::int64_t row = 0; row < side; ++row)
        for (std::int64_t column = 0; column < side; ++column)
          alone += seen(row, column) && !seen(row - 1, column) && !seen(row, column - 1);
    }
  return alone / static_cast<double>(kAspects * kSamples * side * side);
}

ExpectedShare::ExpectedShare(const config::Job& job) : family_(job.model.family) {
  using config::Family;
  if (family_ == Family::kJepa || family_ == Family::kHvjepa) {
    const std::int64_t side = job.vision.image / job.vision.patch;
    const config::Jepa& jepa = job.jepa;
    const auto shares = [&](const config::MaskRule& rule) -> MaskShares {
      const auto [blocks, scale] = rule;
      if (jepa.cut_batch > 0) return cut_shares(side, blocks, scale, jepa.cut_batch);
      const double seen = seen_of_frame(side, side, blocks, scale);
      return {.seen = seen, .hidden = 1 - seen};
    };
    const auto rules = config::mask_rules(jepa);
    const MaskShares near = shares(rules[0]), far = shares(rules[1]);
    masks_ = {.seen = (near.seen + far.seen) / 2, .hidden = (near.hidden + far.hidden) / 2};
  }
  if (family_ == Family::kHvjepa || job.vision.chunked)
    chunks_ = 1.0 / static_cast<double>(job.chunk.ratio);
  if (family_ == Family::kHvjepa) {
    // Masks hide the same places in all frames, so that only the first has tokens without a neighbour before them.
    const std::int64_t side = job.vision.image / job.vision.patch;
    double alone = 0;
    for (const auto [blocks, scale] : config::mask_rules(job.jepa))
      alone += alone_in_frame(side, blocks, scale) / 2;
    alone *= static_cast<double>(job.vision.tubelet) / static_cast<double>(job.vision.frames);
    seen_chunks_ = alone + std::max(masks_.seen - alone, 0.0) * chunks_;
  }
  if (family_ == Family::kVlm && !model::sees_clips(job) && !job.vlm.pack)
    tower_ = (1 + mean_tiles(job.vlm.max_tiles)) / (1 + static_cast<double>(job.vlm.max_tiles));
  if (family_ == Family::kArrcoc)
    tower_ = static_cast<double>(job.arrcoc.budget) /
             static_cast<double>(model::region_tower(job).tokens);
  if (family_ == Family::kHnet) {
    double share = 1;
    for (const config::HnetStage& stage : config::hnet_stages(job.hnet)) {
      stages_.push_back(share);
      share /= std::max(stage.ratio, 1.0);
    }
  }
}

double ExpectedShare::masked(std::string_view node) const {
  const bool tokens = node.ends_with("embed") || node.find("chunk") != node.npos;
  if (node.starts_with("teacher.")) return tokens ? 1 : chunks_;
  const double seen = family_ == config::Family::kHvjepa ? seen_chunks_ : masks_.seen;
  if (node == "predictor.embed") return seen;
  if (node.starts_with("predictor.")) return seen + masks_.hidden * chunks_;
  if (node == "loss") return masks_.hidden * chunks_;
  return tokens ? masks_.seen : seen;
}

bool ExpectedShare::varies() const {
  return masks_.seen < 1 || chunks_ < 1 || tower_ < 1 ||
         std::ranges::any_of(stages_, [](double share) { return share < 1; });
}

// "s1.route" and its like.
double ExpectedShare::staged(std::string_view node) const {
  if (node.size() < 3 || node[0] != 's') return 1;
  const std::size_t stage = static_cast<std::size_t>(node[1] - '0');
  return node[2] == '.' && stage < stages_.size() ? stages_[stage] : 1;
}

double ExpectedShare::of(std::string_view node) const {
  if (node.starts_with("tower.block.") || node == "tower.norm") return chunks_;
  switch (family_) {
    case config::Family::kJepa:
    case config::Family::kHvjepa: return masked(node);
    case config::Family::kHnet: return staged(node);
    case config::Family::kVlm:
    case config::Family::kArrcoc:
      return node.starts_with("vision.") || node.starts_with("deepstack.") || node == "projector"
                 ? tower_
                 : 1;
    default: return 1;
  }
}

}  // namespace trireme::planner
