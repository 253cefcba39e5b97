// Regions of a micro-batch's images, each with tokens of its own level, one after the other in packed rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "trireme/families/arrcoc/blocks_allocation.h"

namespace trireme::blocks {

// Rows: first level * level rows of every region at the least level, in the order of images and regions. Then regions
// at higher levels have further rows at their own level, level by level. A region's tokens are row by row.
class Regions {
 public:
  // Regions with levels [images, grid * grid] of any type that holds them.
  Regions(const at::Tensor& levels, const Levels& limits, std::int64_t grid);

  // Regions of one level above the least.
  struct Group {
    std::int64_t level;
    at::Tensor regions;  // int64, numbers among all regions of the micro-batch
    std::int64_t first_row;
    std::int64_t rows() const { return regions.size(0) * level * level; }
  };
  const std::vector<Group>& groups() const { return groups_; }
  std::int64_t base_rows() const { return base_rows_; }
  std::int64_t least() const { return limits_.least; }
  std::int64_t rows() const;
  std::int64_t images() const { return levels_.size(0); }

  // Place of every row within its region in tokens of the highest level, fp64 [rows, 2]; its level less the least.
  at::Tensor places() const;
  at::Tensor row_levels() const;
  // Prefix sums of the tokens of regions as they lie in rows, int32 on the CPU.
  at::Tensor starts() const;

  // Tokens of an image, int64 [images], and of one region of each.
  at::Tensor tokens() const;
  at::Tensor tokens_of(const at::Tensor& region) const;
  // Region of each image with the most tokens.
  at::Tensor most() const;
  // Row of each of `slots` tokens of each image, region by region; -1 after the last.
  at::Tensor slots(std::int64_t slots) const;
  // Time, row and column of these in 1 / kFraction of a token of the highest level, int64 [images, slots, 3]. An image
  // is at time 0, at the place of the whole image. The next `text` tokens continue from its end on all three axes, and
  // all later ones have the last position.
  static constexpr std::int64_t kFraction = 64;
  at::Tensor positions(std::int64_t slots, std::int64_t text) const;

 private:
  at::Tensor places_of(std::int64_t level) const;  // [level * level, 2]

  at::Tensor levels_;  // int64 on the CPU
  Levels limits_;
  std::int64_t grid_;
  std::int64_t base_rows_;
  std::vector<Group> groups_;
};

}  // namespace trireme::blocks
