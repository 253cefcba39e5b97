#include "trireme/data/masks.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/data/made_up.h"

namespace trireme::data {
namespace {

constexpr double kLeastAspect = 0.75, kMostAspect = 1.5;
constexpr int kTries = 1000;

// Which tokens of a frame are hidden: blocks last for the whole clip.
std::vector<bool> hidden_tokens(const TokenGrid& grid, const BlockRule& rule, Draws draws) {
  const BlockSize size = block_size(grid, rule.scale, draws.uniform(kLeastAspect, kMostAspect));
  std::vector<bool> hidden(static_cast<std::size_t>(grid.rows * grid.columns));
  for (std::int64_t block = 0; block < rule.blocks; ++block) {
    const std::int64_t top = draws.below(grid.rows - size.rows + 1);
    const std::int64_t left = draws.below(grid.columns - size.columns + 1);
    for (std::int64_t row = top; row < top + size.rows; ++row)
      std::fill_n(hidden.begin() + row * grid.columns + left, size.columns, true);
  }
  return hidden;
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
  for (std::int64_t attempt = 0; attempt < kTries; ++attempt) {
    const std::vector<bool> hidden =
        hidden_tokens(grid, rule, Draws(static_cast<std::int64_t>(key), attempt));
    if (std::ranges::find(hidden, false) == hidden.end()) continue;
    Mask mask;
    const std::int64_t frame = grid.rows * grid.columns;
    for (std::int64_t token = 0; token < grid.frames * frame; ++token)
      (hidden[static_cast<std::size_t>(token % frame)] ? mask.targets : mask.context)
          .push_back(token);
    return mask;
  }
  fail(ErrorKind::kUsage,
       "{} blocks of {} of a frame of {} x {} tokens left nothing to see in {} masks; lower "
       "jepa.short_blocks or jepa.short_scale, or the long ones",
       rule.blocks, rule.scale, grid.rows, grid.columns, kTries);
}

}  // namespace trireme::data
