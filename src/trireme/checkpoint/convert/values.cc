#include "trireme/checkpoint/convert/values.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace trireme::convert {
namespace {

template <typename T>
T load(std::span<const std::byte> bytes, std::int64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

double from_half(std::uint16_t bits) {
  constexpr int kMantissa = 10, kBias = 15, kSpecial = 31;
  const int exponent = bits >> kMantissa & kSpecial;
  const int mantissa = bits & ((1 << kMantissa) - 1);
  double value = exponent == 0
                     ? std::ldexp(mantissa, 1 - kBias - kMantissa)
                     : std::ldexp(mantissa + (1 << kMantissa), exponent - kBias - kMantissa);
  if (exponent == kSpecial)
    value = mantissa == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  return (bits & 0x8000) != 0 ? -value : value;
}

}  // namespace

double value_at(std::span<const std::byte> bytes, DType type, std::int64_t index) {
  switch (type) {
    case DType::kF64: return load<double>(bytes, index);
    case DType::kF32: return load<float>(bytes, index);
    case DType::kBF16:
      return std::bit_cast<float>(static_cast<std::uint32_t>(load<std::uint16_t>(bytes, index))
                                  << 16);
    case DType::kF16: return from_half(load<std::uint16_t>(bytes, index));
    case DType::kI64: return static_cast<double>(load<std::int64_t>(bytes, index));
    case DType::kI32: return load<std::int32_t>(bytes, index);
    case DType::kI16: return load<std::int16_t>(bytes, index);
    case DType::kU16: return load<std::uint16_t>(bytes, index);
    case DType::kU8: return load<std::uint8_t>(bytes, index);
  }
  return 0;
}

}  // namespace trireme::convert
