// Codecs of one whole block: bodies that callers inline and the compiler vectorises. No result depends on the width
// of vectors, because only sum_of_magnitudes() adds, in a fixed tree.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "trireme/base/simd.h"

namespace trireme::codec {

inline constexpr std::int64_t kMostDense = 256, kMostSparse = 4096;  // elements of a block
inline constexpr std::uint32_t kMagnitude = 0x7FFFFFFFu, kInfinity = 0x7F800000u;
inline constexpr std::uint16_t kNaN16 = 0x7FC0u;

TRIREME_SIMD_INLINE std::uint32_t magnitude_bits(float x) {
  return std::bit_cast<std::uint32_t>(x) & kMagnitude;
}
TRIREME_SIMD_INLINE float magnitude(float x) { return std::bit_cast<float>(magnitude_bits(x)); }
TRIREME_SIMD_INLINE float widened(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

// To the nearest bf16, ties to even; NaN stays NaN.
TRIREME_SIMD_INLINE std::uint16_t nearest_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40u;
  return static_cast<std::uint16_t>((bits & kMagnitude) > kInfinity ? nan : rounded);
}

// Bits of the largest magnitude. Those of NaN are larger than those of infinity.
TRIREME_SIMD_INLINE std::uint32_t largest(const float* x, std::int64_t count) {
  std::uint32_t most = 0;
  for (std::int64_t i = 0; i < count; ++i) most = std::max(most, magnitude_bits(x[i]));
  return most;
}

// The bf16 at or above largest / most; NaN if the block is not finite. Rounded up, so that no code exceeds `most`.
TRIREME_SIMD_INLINE std::uint16_t scale_above(std::uint32_t largest, float most) {
  if (largest >= kInfinity) return kNaN16;
  const auto bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(largest) / most);
  return static_cast<std::uint16_t>((bits + 0xFFFFu) >> 16);
}

// 16 random bits of element `i` of a block with this key: lowbias32 (Wellons 2018).
TRIREME_SIMD_INLINE std::uint32_t noise_bits(std::uint32_t key, std::uint32_t i) {
  std::uint32_t h = (i * 0x9E3779B9u) ^ key;
  h = (h ^ (h >> 16)) * 0x7FEB352Du;
  h = (h ^ (h >> 15)) * 0x846CA68Bu;
  return h >> 16;
}

// codes[i] = x[i] / scale, rounded to nearest even, or by noise: floor(x / scale + u), u in [0, 1).
template <bool kStochastic>
TRIREME_SIMD_INLINE void quantise(const float* __restrict x, std::int64_t count, float scale,
                                  float most, std::uint32_t key, std::int8_t* __restrict codes) {
  constexpr float kToInteger = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  for (std::int64_t i = 0; i < count; ++i) {
    const float quotient = x[i] / scale;
    float code = 0;
    if constexpr (kStochastic) {
      const auto u = static_cast<float>(static_cast<std::int32_t>(
                         noise_bits(key, static_cast<std::uint32_t>(i)))) *
                     (1.0f / 65536);
      const float shifted = quotient + u;
      const float near = (shifted + kToInteger) - kToInteger;
      code = std::clamp(near > shifted ? near - 1.0f : near, -most, most);
    } else {
      code = (quotient + kToInteger) - kToInteger;
    }
    codes[i] = static_cast<std::int8_t>(static_cast<std::int32_t>(code));
  }
}

// Two codes of 4 bits a byte, the first in the lower half.
TRIREME_SIMD_INLINE void pack(const std::int8_t* __restrict codes, std::int64_t count,
                              std::uint8_t* __restrict out) {
  for (std::int64_t i = 0; i < count / 2; ++i) {
    std::uint16_t pair = 0;
    std::memcpy(&pair, codes + 2 * i, sizeof pair);
    out[i] = static_cast<std::uint8_t>((pair & 0xFu) | ((pair >> 4) & 0xF0u));
  }
}
// Halves without sign.
TRIREME_SIMD_INLINE void unpack(const std::uint8_t* __restrict in, std::int64_t count,
                                std::uint8_t* __restrict halves) {
  for (std::int64_t i = 0; i < count / 2; ++i) {
    const auto pair = static_cast<std::uint16_t>((in[i] & 0xFu) | ((in[i] & 0xF0u) << 4));
    std::memcpy(halves + 2 * i, &pair, sizeof pair);
  }
}

// Nibbles: bit 3 the sign, the rest the nearest level L, ties to the larger magnitude; level 0 has no sign. Levels L > 1
// begin at 0.75 a 2^(L-7), level 1 at a / 128.
TRIREME_SIMD_INLINE void nearest_levels(const float* __restrict x, std::int64_t count, float a,
                                        std::int8_t* __restrict codes) {
  const float tie = 0.75f * a;
  const float begins[7] = {
      a * 0x1p-7f, tie * 0x1p-5f, tie * 0x1p-4f, tie * 0x1p-3f, tie * 0x1p-2f, tie * 0x1p-1f, tie};
  for (std::int64_t i = 0; i < count; ++i) {
    const float size = magnitude(x[i]);
    const auto from = [&](int level) {
      return static_cast<std::int32_t>(size >= begins[level - 1]);
    };
    // Unrolled by hand: compilers do not vectorise a loop within the loop.
    std::int32_t level = from(1) + from(2) + from(3) + from(4) + from(5) + from(6) + from(7);
    level &= -static_cast<std::int32_t>(size > 0);
    const std::int32_t sign =
        static_cast<std::int32_t>(x[i] < 0) & static_cast<std::int32_t>(level > 0);
    codes[i] = static_cast<std::int8_t>(level | (sign << 3));
  }
}
TRIREME_SIMD_INLINE float level_value(std::uint32_t nibble, float a) {
  const std::uint32_t level = nibble & 7u;
  const std::uint32_t factor = level > 0 ? (level + 120u) << 23 : 0u;  // 2^(L-7)
  return a * std::bit_cast<float>(factor | ((nibble & 8u) << 28));
}

// Sum of a block's first `real` magnitudes as a tree: element i meets i + half, then i + quarter, ...
TRIREME_SIMD_INLINE float sum_of_magnitudes(const float* x, std::int64_t count, std::int64_t real) {
  float sums[kMostDense];
  sums[0] = 0;
  for (std::int64_t i = 0; i < count; ++i) sums[i] = i < real ? magnitude(x[i]) : 0.0f;
  for (std::int64_t half = count / 2; half > 0; half /= 2)
    for (std::int64_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  return sums[0];
}

// One bit an element, set for negative ones, little-endian; `count` is a multiple of 8.
TRIREME_SIMD_INLINE void pack_signs(const float* x, std::int64_t count, std::uint8_t* out) {
  for (std::int64_t byte = 0; byte < count / 8; ++byte) {
    unsigned bits = 0;
    for (unsigned bit = 0; bit < 8; ++bit) bits |= (x[8 * byte + bit] < 0 ? 1u : 0u) << bit;
    out[byte] = static_cast<std::uint8_t>(bits);
  }
}
TRIREME_SIMD_INLINE void unpack_signs(const std::uint8_t* in, std::int64_t count, float size,
                                      float* out) {
  const auto bits = std::bit_cast<std::uint32_t>(size);
  for (std::int64_t byte = 0; byte < count / 8; ++byte)
    for (unsigned bit = 0; bit < 8; ++bit)
      out[8 * byte + bit] =
          std::bit_cast<float>(bits ^ (((static_cast<std::uint32_t>(in[byte]) >> bit) & 1u) << 31));
}

}  // namespace trireme::codec
