// The middle of repeated measurements.
#pragma once

#include <algorithm>
#include <vector>

namespace trireme::app {

// The upper of the two middle ones for an even count; `values` is not empty.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace trireme::app
