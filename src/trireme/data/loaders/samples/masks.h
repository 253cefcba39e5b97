// Multi-block masks of clips (Bardes et al. 2024): blocks of patches over all frames are hidden, the rest is seen.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme::loaders {

// Tokens of a clip, time first, then row, then column.
struct TokenGrid {
  std::int64_t frames = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

struct BlockRule {
  std::int64_t blocks = 0;
  double scale = 0;  // share of a frame's tokens
};

struct BlockSize {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  auto operator<=>(const BlockSize&) const = default;
};
// Block of a share of `scale` of a frame's tokens, `aspect` times as high as wide; within the frame.
BlockSize block_size(const TokenGrid& grid, double scale, double aspect);

// Visible and predicted tokens: ascending, and together every token once.
struct Mask {
  std::vector<std::int64_t> context;
  std::vector<std::int64_t> targets;
};
// A function of its arguments: one size, of an aspect from U(3/4, 3/2), for all blocks, each at a place of its own. Drawn
// again where nothing is left to see; throws Error{kUsage} where that never ends.
Mask draw_mask(const TokenGrid& grid, const BlockRule& rule, std::uint64_t key);

// Masks of the samples with these keys, made like V-JEPA 2's for a device's batch. `key` draws one size for all blocks
// of all samples, and contexts and targets are cut to the shortest of the samples. Both keep their first tokens, so
// that those of late frames are dropped and belong to neither. Throws as draw_mask.
std::vector<Mask> draw_cut_masks(const TokenGrid& grid, const BlockRule& rule, std::uint64_t key,
                                 std::span<const std::uint64_t> samples);

}  // namespace trireme::loaders
