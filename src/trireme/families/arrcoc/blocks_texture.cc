#include "trireme/families/arrcoc/blocks_texture.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/replication_pad2d.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>

namespace trireme::blocks {
namespace {

at::Tensor linear_light(const at::Tensor& srgb) {
  return at::where(srgb <= 0.04045, srgb / 12.92, at::pow((srgb + 0.055) / 1.055, 2.4));
}

// CIE's cube root, straight near 0.
at::Tensor lightness(const at::Tensor& u) {
  constexpr double kEdge = 6.0 / 29;
  return at::where(u > kEdge * kEdge * kEdge, at::pow(u.clamp_min(1e-12), 1.0 / 3),
                   u / (3 * kEdge * kEdge) + 4.0 / 29);
}

// [b, 3, s, s] -> channels 3 to 5, [b, s, s] each.
std::vector<at::Tensor> lab(const at::Tensor& rgb) {
  const at::Tensor c = linear_light(rgb);
  const at::Tensor r = c.select(1, 0), g = c.select(1, 1), b = c.select(1, 2);
  const at::Tensor x = lightness((0.4124564 * r + 0.3575761 * g + 0.1804375 * b) / 0.95047);
  const at::Tensor y = lightness(0.2126729 * r + 0.7151522 * g + 0.0721750 * b);
  const at::Tensor z = lightness((0.0193339 * r + 0.1191920 * g + 0.9503041 * b) / 1.08883);
  return {(116 * y - 16) / 100, (500 * (x - y) + 128) / 255, (200 * (y - z) + 128) / 255};
}

// [b, s, s] -> channels 6 to 9.
std::vector<at::Tensor> edges(const at::Tensor& luma) {
  const std::int64_t side = luma.size(1);
  const at::Tensor padded = at::replication_pad2d(luma, {1, 1, 1, 1});
  const auto at_offset = [&](std::int64_t row, std::int64_t column) {
    return padded.narrow(1, row, side).narrow(2, column, side);
  };
  const auto side_sum = [&](bool across, std::int64_t end) {
    const auto one = [&](std::int64_t i) { return across ? at_offset(i, end) : at_offset(end, i); };
    return one(0) + 2 * one(1) + one(2);
  };
  const at::Tensor gx = (side_sum(true, 2) - side_sum(true, 0)) / 8;
  const at::Tensor gy = (side_sum(false, 2) - side_sum(false, 0)) / 8;
  const at::Tensor xx = gx * gx, yy = gy * gy;
  const double most = std::sqrt(5.0) / 4;
  return {gx + 0.5, gy + 0.5, (at::sqrt(xx + yy + 1e-12) / most).clamp_max(1),
          0.5 * (1 + (xx - yy) / (xx + yy + 1e-6))};
}

// Of images like these, channels 10 to 12.
at::Tensor places(const at::Tensor& rgb, const Point& fovea) {
  const std::int64_t side = rgb.size(2);
  const at::Tensor centres = (at::arange(side, rgb.options()) + 0.5) / static_cast<double>(side);
  const at::Tensor x = centres.view({1, side}).expand({side, side});
  const at::Tensor y = centres.view({side, 1}).expand({side, side});
  const auto furthest = [](double at) { return std::max(at, 1 - at); };
  const double largest = std::hypot(furthest(fovea[0]), furthest(fovea[1]));
  const at::Tensor apart = at::sqrt((x - fovea[0]).square() + (y - fovea[1]).square()) / largest;
  return at::stack({x, y, apart}, 0).unsqueeze(0).expand({rgb.size(0), -1, -1, -1});
}

}  // namespace

void texture_by_groups(const at::Tensor& images, const Point& fovea, const OnChannels& on) {
  at::Tensor rgb = images;
  if (rgb.size(2) > kTextureSide) rgb = at::adaptive_avg_pool2d(rgb, {kTextureSide, kTextureSide});
  rgb = rgb.clamp(0, 1);
  on(kChannelGroups[0], rgb);
  on(kChannelGroups[1], at::stack(lab(rgb), 1).clamp(0, 1));
  on(kChannelGroups[2], at::stack(edges(luma(rgb)), 1));
  on(kChannelGroups[3], places(rgb, fovea));
}

at::Tensor texture(const at::Tensor& images, const Point& fovea) {
  std::vector<at::Tensor> groups;
  texture_by_groups(images, fovea, [&](const ChannelGroup& group, const at::Tensor& channels) {
    groups.push_back(channels);
  });
  return at::cat(groups, 1);
}

at::Tensor luma(const at::Tensor& texture) {
  return 0.299 * texture.select(1, 0) + 0.587 * texture.select(1, 1) + 0.114 * texture.select(1, 2);
}

}  // namespace trireme::blocks
