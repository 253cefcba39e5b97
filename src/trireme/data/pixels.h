// Pictures as the numbers that a tower reads.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/config/pixels.h"
#include "trireme/media/image.h"

namespace trireme::data {

// Float [3, height, width]: values from 0 to 1, less the mean, over the standard deviation.
at::Tensor pixels_of(const media::Image& image, const config::PixelScale& scale);

}  // namespace trireme::data
