// Elementwise kernels on the CPU; arithmetic in Wide<T>.
#pragma once

#include <cstdint>

#include "trireme/ops/kernels/cpu/lanes.h"

namespace trireme::ops::kernels {

template <typename T>
void gelu(const T* x, T* y, std::int64_t count);
template <typename T>
void gelu_backward(const T* x, const T* dy, T* dx, std::int64_t count);

template <typename T>
void swiglu(const T* gate, const T* up, T* y, std::int64_t count);
template <typename T>
void swiglu_backward(const T* gate, const T* up, const T* dy, T* dgate, T* dup, std::int64_t count);

// Rotates pairs (i, i + width/2) of every head of `rows` token rows; row r is at position
// (first_row + r) % positions. `direction` -1 rotates back. cosines, sines: [positions, width/2].
template <typename T>
struct Rotation {
  const Wide<T>* cosines = nullptr;
  const Wide<T>* sines = nullptr;
  std::int64_t positions = 0;
  std::int64_t heads = 0;
  std::int64_t width = 0;  // of a head
  int direction = 1;
};
template <typename T>
void rotate(const Rotation<T>& rotation, const T* x, T* y, std::int64_t first_row,
            std::int64_t rows);

// Which elements of a row noise keeps: a function of (key, row, column) alone.
struct Keep {
  std::uint64_t key = 0;
  std::uint32_t threshold = 0;  // drops where the hash is below: p * 2^32

  static Keep at_rate(std::uint64_t key, double p);

  TRIREME_SIMD_INLINE std::uint32_t row(std::uint64_t r) const {
    std::uint64_t z = (key ^ r * 0x9E3779B97F4A7C15ull) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 31)) * 0x94D049BB133111EBull;
    return static_cast<std::uint32_t>(z >> 32);
  }
  // Two rounds of multiply and shift decorrelate neighbours.
  TRIREME_SIMD_INLINE bool operator()(std::uint32_t row, std::uint32_t column) const {
    std::uint32_t h = row ^ (column * 0x9E3779B9u);
    h = (h ^ (h >> 16)) * 0x7FEB352Du;
    h = (h ^ (h >> 15)) * 0x846CA68Bu;
    return (h ^ (h >> 16)) >= threshold;
  }
};

// y = kept ? x / (1 - p) : 0 for rows [begin, end) of [.., width].
template <typename T>
void dropout(const Keep& keep, double scale, const T* x, T* y, std::int64_t width,
             std::int64_t begin, std::int64_t end);

}  // namespace trireme::ops::kernels
