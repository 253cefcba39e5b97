#include "trireme/data/loaders/samples/pixels.h"

#include <ATen/ops/empty.h>

#include <cstddef>

namespace trireme::loaders {

namespace {

template <typename Value>
at::Tensor scaled_pixels(std::span<const Value> rgb, int width, int height,
                         const config::PixelScale& scale) {
  const at::Tensor pixels = at::empty({3, height, width}, at::kFloat);
  auto* const values = pixels.data_ptr<float>();
  const std::size_t area = rgb.size() / 3;
  for (std::size_t channel = 0; channel < 3; ++channel)
    for (std::size_t i = 0; i < area; ++i)
      values[channel * area + i] = static_cast<float>(
          (rgb[3 * i + channel] / 255.0 - scale.mean[channel]) / scale.std[channel]);
  return pixels;
}

}  // namespace

at::Tensor pixels_of(const media::Image& image, const config::PixelScale& scale) {
  return scaled_pixels(std::span<const std::uint8_t>(image.rgb), image.width, image.height, scale);
}

at::Tensor pixels_of(std::span<const float> rgb, int width, int height,
                     const config::PixelScale& scale) {
  return scaled_pixels(rgb, width, height, scale);
}

}  // namespace trireme::loaders
