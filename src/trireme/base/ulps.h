// How far two numbers of a floating-point type lie apart, counted in numbers of that type.
#pragma once

#include <cstdint>
#include <limits>

#include "trireme/base/dtype.h"

namespace trireme {

inline constexpr std::uint64_t kMostUlps = std::numeric_limits<std::uint64_t>::max();

// Units in the last place from a to b: number of steps between neighbouring numbers of `type` (fp64, fp32, bf16), after
// rounding both to it. Both zeros are one number; a NaN equals a NaN and is kMostUlps from all else. Throws
// Error{kInternal} for another type.
std::uint64_t ulps_between(double a, double b, DType type);

}  // namespace trireme
