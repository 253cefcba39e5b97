#include "trireme/planner/uncertainty.h"

namespace trireme::planner {

Band band(double seconds) {
  constexpr double kRelative = 0.08;
  return {.low = seconds * (1 - kRelative), .high = seconds * (1 + kRelative)};
}

std::optional<Band> band(const Gpu& gpu, double seconds) {
  if (!gpu.fitted) return std::nullopt;
  return band(seconds);
}

}  // namespace trireme::planner
