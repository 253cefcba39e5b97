// What the row kernels share: types, running sums in a fixed order, and an exponential that vectorises.
#pragma once

#include <c10/util/BFloat16.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "trireme/base/simd.h"

namespace trireme::ops::kernels {

// Arithmetic of storage type T: double stays double, everything else is float.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

// One element of storage as arithmetic sees it, and back, rounded to nearest even.
TRIREME_SIMD_INLINE double widen(double x) { return x; }
TRIREME_SIMD_INLINE float widen(float x) { return x; }
TRIREME_SIMD_INLINE float widen(c10::BFloat16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.x) << 16);
}
TRIREME_SIMD_INLINE void store(double* to, double x) { *to = x; }
TRIREME_SIMD_INLINE void store(float* to, float x) { *to = x; }
TRIREME_SIMD_INLINE void store(c10::BFloat16* to, float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = bits + 0x7FFFu + ((bits >> 16) & 1u);
  to->x = static_cast<std::uint16_t>((x == x ? rounded : 0x7FC00000u) >> 16);
}

// Sixteen running sums, added up pairwise: the order depends on the count of terms alone.
template <typename A>
struct LaneSum {
  static constexpr std::int64_t kLanes = 16;
  A lanes[kLanes] = {};

  TRIREME_SIMD_INLINE A total() const {
    A sums[kLanes];
    for (int i = 0; i < kLanes; ++i) sums[i] = lanes[i];
    for (int width = kLanes / 2; width > 0; width /= 2)
      for (int i = 0; i < width; ++i) sums[i] += sums[i + width];
    return sums[0];
  }
};

// Sum over i < count of term(i).
template <typename A, typename Term>
TRIREME_SIMD_INLINE A lane_sum(std::int64_t count, const Term& term) {
  constexpr std::int64_t kLanes = LaneSum<A>::kLanes;
  LaneSum<A> sum;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) sum.lanes[lane] += term(i + lane);
  for (std::int64_t lane = 0; i < count; ++i, ++lane) sum.lanes[lane] += term(i);
  return sum.total();
}

// Largest of row[0..count), which is not empty; NaN wins nothing and reappears in the sum.
template <typename T, typename A = Wide<T>>
TRIREME_SIMD_INLINE A row_max(const T* row, std::int64_t count) {
  constexpr std::int64_t kLanes = LaneSum<A>::kLanes;
  A lanes[kLanes];
  for (A& lane : lanes) lane = widen(row[0]);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const A value = widen(row[i + lane]);
      lanes[lane] = value > lanes[lane] ? value : lanes[lane];
    }
  for (; i < count; ++i) {
    const A value = widen(row[i]);
    lanes[0] = value > lanes[0] ? value : lanes[0];
  }
  A largest = lanes[0];
  for (const A lane : lanes) largest = lane > largest ? lane : largest;
  return largest;
}

// e^x to 2 ulp: 2^n times a polynomial on [-ln2/2, ln2/2] (Cody & Waite's reduction, Taylor terms to the
// seventh). Saturates at the ends of the normal range; NaN stays NaN.
TRIREME_SIMD_INLINE float exponential(float x) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float shifted = x * 1.44269504f + kShift;
  const float n = shifted - kShift;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = (p * r) * r + r + 1.0f;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(shifted) << 23;
  return p * std::bit_cast<float>(bits + (std::uint32_t{127} << 23));
}
TRIREME_SIMD_INLINE double exponential(double x) { return std::exp(x); }

// 1 / (1 + e^-x).
template <typename A>
TRIREME_SIMD_INLINE A sigmoid(A x) {
  return A(1) / (A(1) + exponential(-x));
}

}  // namespace trireme::ops::kernels
