// Elementwise kernels on the CPU; arithmetic in Wide<T>.
#pragma once

#include "trireme/ops/kernels/cpu/types.h"

namespace trireme::ops::kernels {

// Rotates pairs (i, i + width/2) of every head of `rows` token rows; row r is at position (first_row + r) % positions.
// `direction` -1 rotates back. Shapes: cosines, sines [positions, width/2].
template <typename T>
struct Rotation {
  const Wide<T>* cosines = nullptr;
  const Wide<T>* sines = nullptr;
  std::int64_t positions = 0;
  std::int64_t heads = 0;
  std::int64_t width = 0;  // of a head
  int direction = 1;
};

// Rotates channels 2i and 2i + 1 of every head of `rows` token rows, `stride` apart in x and one after the other in y. Each
// channel has a cosine and sine of its own; row r is at position (first_row + r) % positions. Shapes: cosines, sines
// [positions, width].
template <typename T>
struct PairRotation {
  const Wide<T>* cosines = nullptr;
  const Wide<T>* sines = nullptr;
  std::int64_t positions = 0;
  std::int64_t heads = 0;
  std::int64_t width = 0;  // of a head, even
  std::int64_t stride = 0;
  bool gradient = false;  // x are gradients of what was rotated: the transposed matrix
};

template <typename T>
struct PointwiseKernels {
  void (*gelu)(const T* x, T* y, std::int64_t count);
  // dx from x and dy, and once more y; dx may be dy.
  void (*gelu_backward)(const T* x, const T* dy, T* dx, T* y, std::int64_t count);
  void (*swiglu)(const T* gate, const T* up, T* y, std::int64_t count);
  // Both gradients, and once more y; dup may be dy.
  void (*swiglu_backward)(const T* gate, const T* up, const T* dy, T* dgate, T* dup, T* y,
                          std::int64_t count);
  // The same of gelu(gate) * up.
  void (*geglu)(const T* gate, const T* up, T* y, std::int64_t count);
  void (*geglu_backward)(const T* gate, const T* up, const T* dy, T* dgate, T* dup, T* y,
                         std::int64_t count);
  void (*rotate)(const Rotation<T>& rotation, const T* x, T* y, std::int64_t first_row,
                 std::int64_t rows);
  void (*rotate_pairs)(const PairRotation<T>& rotation, const T* x, T* y, std::int64_t first_row,
                       std::int64_t rows);
  // y[i] = kept ? x[i] / (1 - p) : 0 for i < count, by the noise at place + i; scale is 1 / (1 - p).
  void (*dropout)(const Keep& keep, double scale, std::int64_t place, const T* x, T* y,
                  std::int64_t count);
};

template <typename T>
const PointwiseKernels<T>& pointwise_kernels();

}  // namespace trireme::ops::kernels
