#include "trireme/ops/kernels/cpu/rows.h"

#include <algorithm>

namespace trireme::ops::kernels {

template <typename T>
TRIREME_SIMD_CLONES void sum_rows(const T* x, std::int64_t rows, std::int64_t width,
                                  Wide<T>* __restrict sums) {
  std::fill(sums, sums + width, Wide<T>(0));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < width; ++i) sums[i] += widen(x[r * width + i]);
}

template <typename A>
TRIREME_SIMD_CLONES void add_rows(A* sums, std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 1; r < rows; ++r)
    for (std::int64_t i = 0; i < width; ++i) sums[i] += sums[r * width + i];
}

template void sum_rows<double>(const double*, std::int64_t, std::int64_t, double*);
template void sum_rows<float>(const float*, std::int64_t, std::int64_t, float*);
template void sum_rows<c10::BFloat16>(const c10::BFloat16*, std::int64_t, std::int64_t, float*);
template void add_rows<double>(double*, std::int64_t, std::int64_t);
template void add_rows<float>(float*, std::int64_t, std::int64_t);

}  // namespace trireme::ops::kernels
