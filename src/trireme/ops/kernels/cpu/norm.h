// Row norms on the CPU. Statistics and sums are in Wide<T>.
#pragma once

#include "trireme/ops/kernels/cpu/types.h"

namespace trireme::ops::kernels {

template <typename T>
struct NormRows {
  const T* x = nullptr;      // [rows, width]
  const T* gain = nullptr;   // [width]
  const T* bias = nullptr;   // [width], layer norm only
  Wide<T>* mean = nullptr;   // [rows], layer norm only
  Wide<T>* scale = nullptr;  // [rows]: 1 / deviation
  std::int64_t width = 0;
  double eps = 0;
};

template <typename T>
struct NormKernels {
  // y = (x - mean) * scale * gain + bias for rows [begin, end); without mean and bias where `rows.mean`
  // is null. Fills the statistics. With `branch`, [rows, width], x is first replaced by x + branch,
  // rounded, in `sum`.
  void (*forward)(const NormRows<T>& rows, const T* branch, T* sum, T* y, std::int64_t begin,
                  std::int64_t end);
  // dx of rows [begin, end), plus `residual`, [rows, width], where it is given; adds these rows' sums for
  // gain and bias (with a mean) to Wide<T>[width] each.
  void (*backward)(const NormRows<T>& rows, const T* dy, const T* residual, T* dx, Wide<T>* dgain,
                   Wide<T>* dbias, std::int64_t begin, std::int64_t end);
};

template <typename T>
const NormKernels<T>& norm_kernels();

}  // namespace trireme::ops::kernels
