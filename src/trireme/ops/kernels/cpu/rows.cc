#include "trireme/ops/kernels/cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/ops/kernels/cpu/rows.cc"
#include <hwy/foreach_target.h>

#include "trireme/ops/kernels/cpu/dispatch-inl.h"
#include "trireme/ops/kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::kernels::HWY_NAMESPACE {

// Four rows at a time, so that sums are read and written once for four additions, and the next four are asked for.
template <typename T>
void add_rows(const T* x, std::int64_t rows, std::int64_t width, std::int64_t stride,
              Wide<T>* sums) {
  constexpr std::int64_t kTogether = 4;
  std::int64_t r = 0;
  for (; r + kTogether <= rows; r += kTogether) {
    const T* const first = x + r * stride;
    over<T>(width, [&](auto at) {
      Vector<T> sum = at.load(sums);
      for (std::int64_t k = 0; k < kTogether; ++k) {
        fetch(first + (kTogether + k) * stride + at.i);
        sum = hn::Add(sum, at.load(first + k * stride));
      }
      at.store(sums, sum);
    });
  }
  for (; r < rows; ++r)
    over<T>(width,
            [&](auto at) { at.store(sums, hn::Add(at.load(sums), at.load(x + r * stride))); });
}

template <typename T>
void dot_rows(const T* a, std::int64_t a_stride, const T* b, std::int64_t b_stride,
              std::int64_t rows, std::int64_t width, Wide<T>* out) {
  for (std::int64_t r = 0; r < rows; ++r)
    out[r] = sum_over<T>(width, [&](auto at) {
      return hn::Mul(at.load(a + r * a_stride), at.load(b + r * b_stride));
    });
}

template <typename T>
void store_rows(const Wide<T>* from, const Wide<T>* factors, std::int64_t rows, std::int64_t width,
                T* to, std::int64_t stride) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const Vector<T> factor = fill<T>(factors != nullptr ? factors[r] : Wide<T>(1));
    over<T>(width, [&](auto at) {
      at.store(to + r * stride, hn::Mul(at.load(from + r * width), factor));
    });
  }
}

template <typename T>
RowKernels<T> make() {
  return {.add_rows = add_rows<T>, .dot_rows = dot_rows<T>, .store_rows = store_rows<T>};
}
TRIREME_KERNELS_OF_TARGET(RowKernels, row_kernels)

}  // namespace trireme::ops::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::kernels {
TRIREME_KERNELS(RowKernels, row_kernels)
}  // namespace trireme::ops::kernels
#endif
