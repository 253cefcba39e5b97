// Mean and standard deviation that pixels have before a tower sees them.
#pragma once

#include <array>
#include <string>

#include "trireme/config/job.h"

namespace trireme::config {

// Of red, green and blue, where black is 0 and white 1.
struct PixelScale {
  std::array<double, 3> mean{}, std{};
  bool operator==(const PixelScale&) const = default;
};

// As vision.mean and vision.std say. Throws Error{kUsage} naming the key.
PixelScale pixel_scale(const Job& job);

// Three numbers as these keys take them: a published name where one has exactly these means or deviations.
std::string written_mean(const std::array<double, 3>& mean);
std::string written_std(const std::array<double, 3>& std);

}  // namespace trireme::config
