// What images look like beside their colours: 13 channels of which each is in [0, 1] whatever the batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trireme::models {

inline constexpr std::int64_t kTextureChannels = 13;
// Images with more pixels a side are shrunk to it.
inline constexpr std::int64_t kTextureSide = 256;

// Images in [0, 1], sRGB, float or double [b, 3, side, side] -> [b, 13, s, s] with s = min(side, kTextureSide):
//   0-2    red, green, blue
//   3-5    L* / 100, (a* + 128) / 255, (b* + 128) / 255 of CIE L*a*b*, white D65
//   6, 7   Sobel / 8 of luma across and down, plus 1/2; borders are replicated
//   8      length of that gradient, of the largest there can be
//   9      (1 + (gx^2 - gy^2) / (gx^2 + gy^2 + 1e-6)) / 2, 1/2 where it is flat
//   10-12  x, y of a pixel's centre and its distance from the middle, of the largest
at::Tensor texture(const at::Tensor& images);

// 0.299 red + 0.587 green + 0.114 blue of a texture, [b, s, s].
at::Tensor luma(const at::Tensor& texture);

}  // namespace trireme::models
