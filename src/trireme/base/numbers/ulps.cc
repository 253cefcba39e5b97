#include "trireme/base/ulps.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "trireme/base/error.h"

namespace trireme {
namespace {

// Sign and magnitude, as floating-point numbers are stored, to whole numbers in the same order.
template <typename Signed>
std::int64_t ordered(Signed bits) {
  constexpr Signed kMagnitude = std::numeric_limits<Signed>::max();
  return bits < 0 ? -static_cast<std::int64_t>(bits & kMagnitude) : bits;
}

// The upper half of an fp32, rounded to nearest even.
std::int16_t bf16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::int16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// Rounded to nearest even; denormals count like the others.
std::int16_t fp16_bits(float value) {
  constexpr int kMantissa = 10, kBias = 15, kLargest = 31;
  const int exponent = value == 0 ? -kBias : std::ilogb(value);
  const int lowest = std::max(exponent, 1 - kBias);
  if (std::isinf(value) || exponent > kBias)
    return static_cast<std::int16_t>((std::signbit(value) ? 0x8000 : 0) | kLargest << kMantissa);
  // A mantissa that rounds up to the next power of two carries into the exponent.
  const auto magnitude =
      static_cast<std::int32_t>(std::nearbyint(std::ldexp(std::abs(value), kMantissa - lowest)));
  const std::int32_t bits = magnitude + ((lowest + kBias - 1) << kMantissa);
  return static_cast<std::int16_t>((std::signbit(value) ? 0x8000 : 0) | bits);
}

std::int64_t place(double value, DType type) {
  switch (type) {
    case DType::kF64: return ordered(std::bit_cast<std::int64_t>(value));
    case DType::kF32: return ordered(std::bit_cast<std::int32_t>(static_cast<float>(value)));
    case DType::kBF16: return ordered(bf16_bits(static_cast<float>(value)));
    case DType::kF16: return ordered(fp16_bits(static_cast<float>(value)));
    default: TRIREME_CHECK(false, "ulps of {}", name(type));
  }
}

}  // namespace

std::uint64_t ulps_between(double a, double b, DType type) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : kMostUlps;
  const auto [low, high] = std::minmax({place(a, type), place(b, type)});
  return static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
}

}  // namespace trireme
