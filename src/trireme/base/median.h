// The middle of repeated measurements.
#pragma once

#include <algorithm>
#include <vector>

namespace trireme {

// The upper of the two middle values for an even count; 0 for no values.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace trireme
