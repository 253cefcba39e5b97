#include "trireme/data/pixels.h"

#include <ATen/ops/empty.h>

#include <cstddef>

namespace trireme::data {

at::Tensor pixels_of(const media::Image& image, const config::PixelScale& scale) {
  const at::Tensor pixels = at::empty({3, image.height, image.width}, at::kFloat);
  auto* const values = pixels.data_ptr<float>();
  const std::size_t area = image.rgb.size() / 3;
  for (std::size_t channel = 0; channel < 3; ++channel)
    for (std::size_t i = 0; i < area; ++i)
      values[channel * area + i] = static_cast<float>(
          (image.rgb[3 * i + channel] / 255.0 - scale.mean[channel]) / scale.std[channel]);
  return pixels;
}

}  // namespace trireme::data
