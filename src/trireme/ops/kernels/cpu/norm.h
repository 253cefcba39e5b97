// Row norms on the CPU. Statistics and sums are in Wide<T>.
#pragma once

#include "trireme/ops/kernels/cpu/types.h"

namespace trireme::ops::kernels {

// x is of type X, which is T or Wide<T>.
template <typename T, typename X = T>
struct NormRows {
  const X* x = nullptr;      // [rows, width]
  const T* gain = nullptr;   // [width]
  const T* bias = nullptr;   // [width], layer norm only
  Wide<T>* mean = nullptr;   // [rows], layer norm only
  Wide<T>* scale = nullptr;  // [rows]: 1 / deviation
  std::int64_t width = 0;
  double eps = 0;
  double offset = 0;  // added to every gain
};

template <typename T, typename X>
struct NormsOf {
  // y = (x - mean) * scale * gain + bias for rows [begin, end); without mean and bias where `rows.mean`
  // is null. Fills the statistics. With `branch`, [rows, width], x is first replaced by x + branch,
  // rounded, in `sum`.
  void (*forward)(const NormRows<T, X>& rows, const T* branch, X* sum, T* y, std::int64_t begin,
                  std::int64_t end);
  // dx of rows [begin, end), plus `residual`, [rows, width], if given. Adds these rows' sums for gain and bias (with a
  // mean) to Wide<T>[width] each.
  void (*backward)(const NormRows<T, X>& rows, const T* dy, const X* residual, X* dx,
                   Wide<T>* dgain, Wide<T>* dbias, std::int64_t begin, std::int64_t end);
};

template <typename T>
struct NormKernels : NormsOf<T, T> {
  NormsOf<T, Wide<T>> wide;  // of a stream in the type of sums
};

template <typename T>
const NormKernels<T>& norm_kernels();

}  // namespace trireme::ops::kernels
