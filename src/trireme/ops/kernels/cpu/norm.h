// Row norms on the CPU. Statistics and sums are in Wide<T>.
#pragma once

#include <cstdint>

#include "trireme/ops/kernels/cpu/lanes.h"

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

// y = (x - mean) * scale * gain + bias for rows [begin, end); without mean and bias where `rows.mean` is
// null. Fills the statistics.
template <typename T>
void norm(const NormRows<T>& rows, T* y, std::int64_t begin, std::int64_t end);

// dx of rows [begin, end), and these rows' sums for gain and bias, written to Wide<T>[width] each
// (`dbias` only with a mean).
template <typename T>
void norm_backward(const NormRows<T>& rows, const T* dy, T* dx, Wide<T>* dgain, Wide<T>* dbias,
                   std::int64_t begin, std::int64_t end);

}  // namespace trireme::ops::kernels
