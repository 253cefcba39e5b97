// Rounding of single numbers to bf16, for loops that do more than that.
#pragma once

#include <bit>
#include <cstdint>

#include "trireme/base/hash.h"
#include "trireme/base/simd.h"
#include "trireme/optim/rounding.h"

namespace trireme::optim {

constexpr std::int64_t kPlacesOfKey = 1 << 16;  // that one hash of 64 bits serves

inline std::uint32_t key_of(const Rounding& rounding, std::int64_t place) {
  return static_cast<std::uint32_t>(
      mix(rounding.key, static_cast<std::uint64_t>(place / kPlacesOfKey)) >> 32);
}

constexpr std::uint32_t kSpread = 0x9E3779B9u, kFirst = 0x7FEB352Du, kSecond = 0x846CA68Bu;

// Two rounds of multiply and shift decorrelate neighbours; 16 bits are used.
TRIREME_SIMD_INLINE std::uint32_t noise(std::uint32_t key, std::uint32_t column) {
  std::uint32_t h = key ^ (column * kSpread);
  h = (h ^ (h >> 16)) * kFirst;
  h = (h ^ (h >> 15)) * kSecond;
  return h >> 16;
}

TRIREME_SIMD_INLINE std::uint16_t rounded_by_noise(float x, std::uint32_t key,
                                                   std::uint32_t column) {
  return static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(x) + noise(key, column)) >> 16);
}

TRIREME_SIMD_INLINE std::uint16_t rounded_to_nearest(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

TRIREME_SIMD_INLINE float widened(std::uint16_t x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
}

}  // namespace trireme::optim
