// Random changes of a clip's pixels in training, the same for all its frames except for noise.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "trireme/data/loaders/samples/synthetic.h"
#include "trireme/data/media/image.h"

namespace trireme::loaders {

// RandAugment (Cubuk et al. 2019) as in V-JEPA 2's probes: `count` of media::Operation, drawn with replacement. Each is
// applied in one of two cases, with a level from N(7, 0.5) and a random sign.
std::vector<media::Image> augment(std::vector<media::Image> frames, std::int64_t count,
                                  Draws& draws);

// Random erasing (Zhong et al. 2020): with this probability a rectangle of 2% to 33% of the area and an aspect of 0.3
// to 3.3 becomes N(0, 1) noise in all frames. Shape of clip: float [3, frames, height, width].
void erase(at::Tensor& clip, double probability, Draws& draws);

}  // namespace trireme::loaders
