#include "trireme/data/loaders/samples/masks.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/data/loaders/samples/synthetic.h"

namespace trireme::loaders {
namespace {

constexpr double kLeastAspect = 0.75, kMostAspect = 1.5;
constexpr int kTries = 1000;

double draw_aspect(Draws& draws) { return draws.uniform(kLeastAspect, kMostAspect); }

// Which tokens of a frame are hidden: blocks last for the whole clip.
std::vector<bool> hidden_tokens(const TokenGrid& grid, const BlockRule& rule, const BlockSize& size,
                                Draws draws) {
  std::vector<bool> hidden(static_cast<std::size_t>(grid.rows * grid.columns));
  for (std::int64_t block = 0; block < rule.blocks; ++block) {
    const std::int64_t top = draws.below(grid.rows - size.rows + 1);
    const std::int64_t left = draws.below(grid.columns - size.columns + 1);
    for (std::int64_t row = top; row < top + size.rows; ++row)
      std::fill_n(hidden.begin() + row * grid.columns + left, size.columns, true);
  }
  return hidden;
}

Mask mask_of(const TokenGrid& grid, const std::vector<bool>& hidden) {
  Mask mask;
  const std::int64_t frame = grid.rows * grid.columns;
  for (std::int64_t token = 0; token < grid.frames * frame; ++token)
    (hidden[token % frame] ? mask.targets : mask.context).push_back(token);
  return mask;
}

// The first mask that leaves something to see; `hide` gives the hidden tokens of an attempt.
Mask first_with_context(const TokenGrid& grid, const BlockRule& rule, const auto& hide) {
  for (std::int64_t attempt = 0; attempt < kTries; ++attempt)
    if (const std::vector<bool> hidden = hide(attempt);
        std::ranges::find(hidden, false) != hidden.end())
      return mask_of(grid, hidden);
  fail(ErrorKind::kUsage,
       "{} blocks of {} of a frame of {} x {} tokens left nothing to see in {} masks; lower "
       "the counts or the shares of jepa.masks",
       rule.blocks, rule.scale, grid.rows, grid.columns, kTries);
}

}  // namespace

BlockSize block_size(const TokenGrid& grid, double scale, double aspect) {
  const double tokens = std::floor(scale * static_cast<double>(grid.rows * grid.columns));
  const auto side = [&](double squared, std::int64_t most) {
    return std::clamp<std::int64_t>(std::llrint(std::sqrt(squared)), 1, most);
  };
  return {.rows = side(tokens * aspect, grid.rows), .columns = side(tokens / aspect, grid.columns)};
}

Mask draw_mask(const TokenGrid& grid, const BlockRule& rule, std::uint64_t key) {
  return first_with_context(grid, rule, [&](std::int64_t attempt) {
    Draws draws(static_cast<std::int64_t>(key), attempt);
    const BlockSize size = block_size(grid, rule.scale, draw_aspect(draws));
    return hidden_tokens(grid, rule, size, draws);
  });
}

std::vector<Mask> draw_cut_masks(const TokenGrid& grid, const BlockRule& rule, std::uint64_t key,
                                 std::span<const std::uint64_t> samples) {
  Draws draws(static_cast<std::int64_t>(key), 0);
  const BlockSize size = block_size(grid, rule.scale, draw_aspect(draws));
  std::vector<Mask> masks;
  for (const std::uint64_t sample : samples)
    masks.push_back(first_with_context(grid, rule, [&](std::int64_t attempt) {
      return hidden_tokens(grid, rule, size, Draws(static_cast<std::int64_t>(sample), attempt));
    }));
  for (const auto part : {&Mask::context, &Mask::targets}) {
    const auto length = [&](const Mask& mask) { return (mask.*part).size(); };
    const std::size_t least = length(*std::ranges::min_element(masks, {}, length));
    for (Mask& mask : masks) (mask.*part).resize(least);
  }
  return masks;
}

}  // namespace trireme::loaders
