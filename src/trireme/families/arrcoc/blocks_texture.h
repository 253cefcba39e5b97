// Texture: appearance of images beyond their colours, as 13 channels, each in [0, 1] for any batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>

namespace trireme::blocks {

inline constexpr std::int64_t kTextureChannels = 13;
// Images with more pixels a side are shrunk to it.
inline constexpr std::int64_t kTextureSide = 256;

// x and y of an image's point, from 0 to 1.
using Point = std::array<double, 2>;
inline constexpr Point kMiddle = {0.5, 0.5};

// Images in [0, 1], sRGB, float or double [b, 3, side, side] -> [b, 13, s, s] with s = min(side, kTextureSide):
//   0-2    red, green, blue
//   3-5    L* / 100, (a* + 128) / 255, (b* + 128) / 255 of CIE L*a*b*, white D65
//   6, 7   Sobel / 8 of luma across and down, plus 1/2; borders are replicated
//   8      length of that gradient, of the largest there can be
//   9      (1 + (gx^2 - gy^2) / (gx^2 + gy^2 + 1e-6)) / 2, 1/2 where it is flat
//   10-12  x, y of a pixel's centre and its distance from the fovea, of the largest
at::Tensor texture(const at::Tensor& images, const Point& fovea = kMiddle);

// The same one group of channels after the other, so that no more than one is there at a time.
struct ChannelGroup {
  std::int64_t first, count;
};
inline constexpr std::array kChannelGroups = {ChannelGroup{0, 3}, ChannelGroup{3, 3},
                                              ChannelGroup{6, 4}, ChannelGroup{10, 3}};
using OnChannels = std::function<void(const ChannelGroup& group, const at::Tensor& channels)>;
void texture_by_groups(const at::Tensor& images, const Point& fovea, const OnChannels& on);

// 0.299 red + 0.587 green + 0.114 blue, the first three channels: [b, s, s].
at::Tensor luma(const at::Tensor& texture);

}  // namespace trireme::blocks
