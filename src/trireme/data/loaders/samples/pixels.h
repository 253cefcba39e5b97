// Pictures as the numbers that a tower reads.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "trireme/config/pixels.h"
#include "trireme/data/media/image.h"

namespace trireme::loaders {

// Float [3, height, width]: values from 0 to 1, less the mean, over the standard deviation.
at::Tensor pixels_of(const media::Image& image, const config::PixelScale& scale);
// The same of values from 0 to 255, [height, width, 3].
at::Tensor pixels_of(std::span<const float> rgb, int width, int height,
                     const config::PixelScale& scale);

}  // namespace trireme::loaders
