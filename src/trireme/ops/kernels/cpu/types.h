// Types the CPU kernels share with their callers.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstdint>
#include <type_traits>

namespace trireme::ops::kernels {

// Arithmetic of storage type T: double stays double, everything else is float.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Whether vectors of float are rounded to bf16 by one instruction.
#if defined(__x86_64__)
inline const bool rounds_to_bf16 = __builtin_cpu_supports("avx512bf16") != 0;
#endif

inline constexpr std::int64_t kPlacesOfKey = 1024;  // of a tensor that dropout counts as one row

// Which elements of a row noise keeps: a function of (key, row, column) alone.
struct Keep {
  std::uint64_t key = 0;
  std::uint32_t threshold = 0;  // drops where the hash is below: p * 2^32

  static Keep at_rate(std::uint64_t key, double p) {
    return {.key = key, .threshold = static_cast<std::uint32_t>(p * 4294967296.0)};
  }

  std::uint32_t row(std::uint64_t r) const {
    std::uint64_t z = (key ^ r * 0x9E3779B97F4A7C15ull) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 31)) * 0x94D049BB133111EBull;
    return static_cast<std::uint32_t>(z >> 32);
  }
  // Two rounds of multiply and shift decorrelate neighbours.
  [[gnu::always_inline]] bool operator()(std::uint32_t row, std::uint32_t column) const {
    std::uint32_t h = row ^ (column * 0x9E3779B9u);
    h = (h ^ (h >> 16)) * 0x7FEB352Du;
    h = (h ^ (h >> 15)) * 0x846CA68Bu;
    return (h ^ (h >> 16)) >= threshold;
  }
};

}  // namespace trireme::ops::kernels
