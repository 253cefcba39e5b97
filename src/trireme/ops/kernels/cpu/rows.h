// Sums over rows on the CPU.
#pragma once

#include <cstdint>

#include "trireme/ops/kernels/cpu/lanes.h"

namespace trireme::ops::kernels {

// sums[i] = sum over r < rows of x[r * width + i], in order.
template <typename T>
void sum_rows(const T* x, std::int64_t rows, std::int64_t width, Wide<T>* sums);

// The first of `rows` rows becomes the sum of all, in order.
template <typename A>
void add_rows(A* sums, std::int64_t rows, std::int64_t width);

}  // namespace trireme::ops::kernels
