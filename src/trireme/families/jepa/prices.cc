#include "trireme/families/jepa/prices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "trireme/base/hash.h"
#include "trireme/families/jepa/keys_masks.h"
#include "trireme/planner/cost/families.h"

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

MaskShares mask_shares(const config::Job& job) {
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
  return {.seen = (near.seen + far.seen) / 2, .hidden = (near.hidden + far.hidden) / 2};
}

Shares masked(const MaskShares& masks, double seen, double chunks, double fullest) {
  const auto of = [=](std::string_view node) {
    const bool tokens = node.ends_with("embed") || node.find("chunk") != node.npos;
    if (node.starts_with("teacher.")) return tokens ? 1 : chunks;
    if (node == "predictor.embed") return seen;
    if (node.starts_with("predictor.")) return seen + masks.hidden * chunks;
    if (node == "loss") return masks.hidden * chunks;
    return tokens ? masks.seen : seen;
  };
  return {.of = of, .varies = masks.seen < 1 || chunks < 1, .fullest = fullest};
}

namespace {

// The tokens of a frame outside the blocks of masks.
Shares masked_shares(const config::Job& job) {
  const MaskShares masks = mask_shares(job);
  return masked(masks, masks.seen, 1, 1.3);
}

std::string masks_note(const config::Job&, const ExpectedShare& share) {
  return fmt::format(
      "time is priced at {:.0f} % of a clip's tokens seen, which masks leave on "
      "average; memory at all of them",
      100 * share.of("block.0"));
}

}  // namespace

FamilyPrices jepa_prices() { return {.shares = masked_shares, .note = masks_note}; }

}  // namespace trireme::planner
