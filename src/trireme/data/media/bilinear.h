// Bilinear sampling in floating point, without antialiasing: how V-JEPA 2 resizes the frames that it is trained on.
#pragma once

#include <vector>

#include "trireme/data/media/image.h"

namespace trireme::media {

// Values from 0 to 255, [height, width, 3], each interpolated from the four nearest pixels. Corners are not aligned,
// and places beyond the outermost centres have the outermost values. Error{kUsage} if a side is not positive.
std::vector<float> sample_bilinear(const Image& image, int width, int height);

}  // namespace trireme::media
