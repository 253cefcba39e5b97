// Bodies of the codecs of integers, which callers inline and the compiler vectorises; no result depends on the width of
// vectors, because powers of two scale exactly and integers add exactly.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "trireme/comm/codec/bodies.h"
#include "trireme/comm/codec/integer.h"

namespace trireme::codec {

inline constexpr std::uint32_t kMantissa = 0x007FFFFFu;

// Byte of the least exponent with `largest` <= most 2^e: that of the quotient, one more where its mantissa is above
// that of `most`. Subnormal numbers give less than the least, which is -127.
TRIREME_SIMD_INLINE std::uint8_t exponent_byte(std::uint32_t largest, float most) {
  if (largest == 0) return kZeroBlock;
  if (largest >= kInfinity) return kNotFinite;
  const auto limit = std::bit_cast<std::uint32_t>(most);
  const std::int32_t above = (largest & kMantissa) > (limit & kMantissa) ? 1 : 0;
  const std::int32_t exponent =
      static_cast<std::int32_t>(largest >> 23) - static_cast<std::int32_t>(limit >> 23) + above;
  return static_cast<std::uint8_t>(std::max(exponent, -127) + 128);
}

// 2^e, which is subnormal for -127; 0 of a block of zeros, NaN of one that is not finite.
TRIREME_SIMD_INLINE float power(std::uint8_t byte) {
  if (byte == kZeroBlock) return 0;
  if (byte == kNotFinite) return std::bit_cast<float>(std::uint32_t{kNaN16} << 16);
  return std::bit_cast<float>(byte == 1 ? 0x00400000u : (std::uint32_t{byte} - 1u) << 23);
}
// 2^-e of any other.
TRIREME_SIMD_INLINE float inverse_power(std::uint8_t byte) {
  return std::bit_cast<float>((255u - std::uint32_t{byte}) << 23);
}

TRIREME_SIMD_INLINE void to_integers(const float* __restrict x, std::int64_t count, float factor,
                                     std::int32_t* __restrict codes) {
  constexpr float kToInteger = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  for (std::int64_t i = 0; i < count; ++i)
    codes[i] = static_cast<std::int32_t>((x[i] * factor + kToInteger) - kToInteger);
}
TRIREME_SIMD_INLINE void from_integers(const std::int32_t* __restrict sums, std::int64_t count,
                                       float factor, float* __restrict x) {
  for (std::int64_t i = 0; i < count; ++i) x[i] = factor * static_cast<float>(sums[i]);
}

template <typename Integer>
TRIREME_SIMD_INLINE void pack_as(const std::int32_t* __restrict in, std::int64_t count,
                                 std::uint8_t* __restrict out) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto one = static_cast<Integer>(in[i]);
    std::memcpy(out + i * static_cast<std::int64_t>(sizeof one), &one, sizeof one);
  }
}
template <typename Integer>
TRIREME_SIMD_INLINE void add_as(const std::uint8_t* __restrict in, std::int64_t count,
                                std::int32_t* __restrict sums) {
  for (std::int64_t i = 0; i < count; ++i) {
    Integer one = 0;
    std::memcpy(&one, in + i * static_cast<std::int64_t>(sizeof one), sizeof one);
    sums[i] += one;
  }
}

}  // namespace trireme::codec
