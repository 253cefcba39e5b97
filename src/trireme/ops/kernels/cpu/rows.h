// Sums over rows on the CPU.
#pragma once

#include "trireme/ops/kernels/cpu/types.h"

namespace trireme::ops::kernels {

template <typename T>
struct RowKernels {
  // sums[i] += sum over r < rows of x[r * stride + i], i < width, in order.
  void (*add_rows)(const T* x, std::int64_t rows, std::int64_t width, std::int64_t stride,
                   Wide<T>* sums);
  // out[r] = sum over i < width of a[r * a_stride + i] * b[r * b_stride + i].
  void (*dot_rows)(const T* a, std::int64_t a_stride, const T* b, std::int64_t b_stride,
                   std::int64_t rows, std::int64_t width, Wide<T>* out);
  // to[r * stride + i] = from[r * width + i] * factors[r], rounded; without factors if null.
  void (*store_rows)(const Wide<T>* from, const Wide<T>* factors, std::int64_t rows,
                     std::int64_t width, T* to, std::int64_t stride);
};

template <typename T>
const RowKernels<T>& row_kernels();

}  // namespace trireme::ops::kernels
