#include "trireme/planner/hardware/uncertainty.h"

namespace trireme::planner {

Band band(const Gpu& gpu, double seconds) {
  // Measured over forecast, of four runs in five.
  constexpr Band kFitted{.low = 0.92, .high = 1.08}, kUnmeasured{.low = 0.97, .high = 1.42};
  const Band& around = gpu.fitted ? kFitted : kUnmeasured;
  return {.low = seconds * around.low, .high = seconds * around.high};
}

Band wider(const Band& band) {
  constexpr double kLow = 1, kHigh = 1.42;
  return {.low = band.low * kLow, .high = band.high * kHigh};
}

}  // namespace trireme::planner
