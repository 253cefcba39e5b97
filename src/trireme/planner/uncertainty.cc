#include "trireme/planner/uncertainty.h"

namespace trireme::planner {

Band band(double seconds) {
  constexpr double kRelative = 0.08;
  return {.low = seconds * (1 - kRelative), .high = seconds * (1 + kRelative)};
}

}  // namespace trireme::planner
