#include "trireme/families/arrcoc/blocks_regions.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

namespace trireme::blocks {
namespace {

const at::TensorOptions kLongs = at::TensorOptions().dtype(at::kLong);

}  // namespace

Regions::Regions(const at::Tensor& levels, const Levels& limits, std::int64_t grid)
    : levels_(levels.detach().to(at::kCPU, at::kDouble).round().to(at::kLong).contiguous()),
      limits_(limits),
      grid_(grid),
      base_rows_(levels.numel() * limits.least_tokens()) {
  const at::Tensor flat = levels_.flatten();
  std::int64_t row = base_rows_;
  for (std::int64_t level = limits.least + 1; level <= limits.most; ++level) {
    Group group{.level = level, .regions = (flat == level).nonzero().squeeze(1), .first_row = row};
    if (group.regions.numel() == 0) continue;
    row += group.rows();
    groups_.push_back(std::move(group));
  }
}

std::int64_t Regions::rows() const {
  return groups_.empty() ? base_rows_ : groups_.back().first_row + groups_.back().rows();
}

at::Tensor Regions::places_of(std::int64_t level) const {
  const at::Tensor ids = at::arange(level * level, kLongs);
  const double scale = static_cast<double>(limits_.most) / static_cast<double>(level);
  const at::Tensor cells = at::stack({ids.div(level, "floor"), ids.remainder(level)}, 1);
  return (cells.to(at::kDouble) + 0.5) * scale - 0.5;
}

at::Tensor Regions::places() const {
  std::vector<at::Tensor> all = {places_of(limits_.least).repeat({levels_.numel(), 1})};
  for (const Group& group : groups_)
    all.push_back(places_of(group.level).repeat({group.regions.size(0), 1}));
  return at::cat(all, 0);
}

at::Tensor Regions::row_levels() const {
  std::vector<at::Tensor> all = {at::zeros({base_rows_}, kLongs)};
  for (const Group& group : groups_)
    all.push_back(at::full({group.rows()}, group.level - limits_.least, kLongs));
  return at::cat(all, 0);
}

at::Tensor Regions::starts() const {
  const std::int64_t least = limits_.least_tokens();
  std::vector<at::Tensor> all = {at::arange(levels_.numel() + 1, kLongs) * least};
  for (const Group& group : groups_) {
    const at::Tensor ends = at::arange(1, group.regions.size(0) + 1, kLongs);
    all.push_back(group.first_row + ends * (group.level * group.level));
  }
  return at::cat(all, 0).to(at::kInt);
}

at::Tensor Regions::tokens() const { return (levels_ * levels_).sum(1); }

at::Tensor Regions::tokens_of(const at::Tensor& region) const {
  const at::Tensor own =
      levels_.gather(1, region.to(at::kCPU).to(at::kLong).view({-1, 1})).squeeze(1);
  return own * own;
}

at::Tensor Regions::most() const {
  const at::Tensor most = levels_.amax(1);
  return most * most;
}

at::Tensor Regions::slots(std::int64_t slots) const {
  std::vector<std::int64_t> first(static_cast<std::size_t>(levels_.numel()));
  for (std::size_t region = 0; region < first.size(); ++region)
    first[region] = static_cast<std::int64_t>(region) * limits_.least_tokens();
  for (const Group& group : groups_)
    for (std::int64_t i = 0; i < group.regions.size(0); ++i)
      first[group.regions.data_ptr<std::int64_t>()[i]] =
          group.first_row + i * group.level * group.level;
  const at::Tensor result = at::full({images(), slots}, -1, kLongs);
  const std::int64_t regions = levels_.size(1);
  for (std::int64_t image = 0; image < images(); ++image) {
    auto* to = result.data_ptr<std::int64_t>() + image * slots;
    for (std::int64_t p = image * regions; p < (image + 1) * regions; ++p) {
      const std::int64_t level = levels_.data_ptr<std::int64_t>()[p];
      for (std::int64_t i = 0; i < level * level; ++i) *to++ = first[p] + i;
    }
  }
  return result;
}

at::Tensor Regions::positions(std::int64_t slots, std::int64_t text) const {
  const at::Tensor behind =
      (at::arange(slots, kLongs).unsqueeze(0) - tokens().unsqueeze(1)).clamp_max(text);
  const at::Tensor result = ((behind + grid_ * limits_.most) * kFraction)
                                .unsqueeze(2)
                                .expand({images(), slots, 3})
                                .contiguous();
  const std::int64_t regions = levels_.size(1);
  for (std::int64_t image = 0; image < images(); ++image) {
    std::int64_t slot = 0;
    for (std::int64_t p = 0; p < regions; ++p) {
      const std::int64_t level = levels_.data_ptr<std::int64_t>()[image * regions + p];
      const at::Tensor corner =
          at::full({1, 2}, p / grid_ * limits_.most, at::TensorOptions().dtype(at::kDouble));
      corner.select(1, 1).fill_(static_cast<double>(p % grid_ * limits_.most));
      const at::Tensor to = result[image].narrow(0, slot, level * level);
      to.select(1, 0).fill_(0);
      to.narrow(1, 1, 2).copy_(
          ((places_of(level) + corner) * static_cast<double>(kFraction)).round());
      slot += level * level;
    }
  }
  return result;
}

}  // namespace trireme::blocks
