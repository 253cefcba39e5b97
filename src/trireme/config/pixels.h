// Mean and standard deviation that pixels have before a tower sees them.
#pragma once

#include <array>
#include <string>

#include "trireme/config/job.h"

namespace trireme::config {

// Scale of red, green and blue, where black is 0 and white 1.
struct PixelScale {
  std::array<double, 3> mean{}, std{};
  bool operator==(const PixelScale&) const = default;
};

// As vision.pixels says. Throws Error{kUsage} naming the key.
PixelScale pixel_scale(const Job& job);

// As that key takes it: a published name where one has exactly these numbers.
std::string written(const PixelScale& scale);

}  // namespace trireme::config
