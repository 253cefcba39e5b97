// Operations of RandAugment (Cubuk et al. 2019) on pictures, with the values that Pillow computes.
#pragma once

#include "trireme/data/media/image.h"

namespace trireme::media {

enum class Operation {
  kAutoContrast,
  kEqualize,
  kInvert,
  kRotate,
  kPosterize,
  kSolarize,
  kSolarizeAdd,
  kColor,
  kContrast,
  kBrightness,
  kSharpness,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
};
inline constexpr int kOperations = 15;

// How strong an operation is: `level` from 0 to 10, in the direction of `sign`, 1 or -1, where it has two. Effects increase
// with the level: up to 30 degrees, 0.3 of shear, 0.45 of a side, 0.9 of an enhancement.
struct Strength {
  double level = 0;
  int sign = 1;
};

// Result of the same size; pixels from outside are grey (128). Places between pixels are interpolated bicubically.
Image augmented(const Image& image, Operation operation, const Strength& strength);

}  // namespace trireme::media
