#include "trireme/ops/kernels/cpu/norm.h"

#include <algorithm>
#include <cmath>

namespace trireme::ops::kernels {

template <typename T>
TRIREME_SIMD_CLONES void norm(const NormRows<T>& rows, T* y, std::int64_t begin, std::int64_t end) {
  using A = Wide<T>;
  const std::int64_t width = rows.width;
  const A count = static_cast<A>(width);
  const T* const gain = rows.gain;
  const T* const bias = rows.bias;
  for (std::int64_t r = begin; r < end; ++r) {
    const T* const x = rows.x + r * width;
    T* const out = y + r * width;
    A mean = 0;
    if (rows.mean != nullptr) {
      mean = lane_sum<A>(width, [&](std::int64_t i) { return widen(x[i]); }) / count;
      rows.mean[r] = mean;
    }
    const A variance = lane_sum<A>(width,
                                   [&](std::int64_t i) {
                                     const A centred = widen(x[i]) - mean;
                                     return centred * centred;
                                   }) /
                       count;
    const A scale = A(1) / std::sqrt(variance + static_cast<A>(rows.eps));
    rows.scale[r] = scale;
    if (bias != nullptr) {
      for (std::int64_t i = 0; i < width; ++i)
        store(out + i, (widen(x[i]) - mean) * scale * widen(gain[i]) + widen(bias[i]));
    } else {
      for (std::int64_t i = 0; i < width; ++i)
        store(out + i, (widen(x[i]) - mean) * scale * widen(gain[i]));
    }
  }
}

// With g = dy * gain and n = (x - mean) * scale: dx = scale * (g - avg(g) - n * avg(g n)), where avg(g) is
// mean's share (Ba et al. 2016; Zhang & Sennrich 2019 without it).
template <typename T>
TRIREME_SIMD_CLONES void norm_backward(const NormRows<T>& rows, const T* dy, T* dx, Wide<T>* dgain,
                                       Wide<T>* dbias, std::int64_t begin, std::int64_t end) {
  using A = Wide<T>;
  const std::int64_t width = rows.width;
  const A count = static_cast<A>(width);
  const T* const gain = rows.gain;
  std::fill(dgain, dgain + width, A(0));
  if (rows.mean != nullptr) std::fill(dbias, dbias + width, A(0));
  for (std::int64_t r = begin; r < end; ++r) {
    const T* const x = rows.x + r * width;
    const T* const dout = dy + r * width;
    T* const din = dx + r * width;
    const A mean = rows.mean != nullptr ? rows.mean[r] : A(0);
    const A scale = rows.scale[r];
    const auto normed = [&](std::int64_t i) { return (widen(x[i]) - mean) * scale; };
    const auto scaled = [&](std::int64_t i) { return widen(dout[i]) * widen(gain[i]); };
    A average = 0;
    if (rows.mean != nullptr) average = lane_sum<A>(width, scaled) / count;
    const A slope =
        lane_sum<A>(width, [&](std::int64_t i) { return scaled(i) * normed(i); }) / count;
    for (std::int64_t i = 0; i < width; ++i) {
      const A n = normed(i);
      dgain[i] += widen(dout[i]) * n;
      store(din + i, (scaled(i) - average - n * slope) * scale);
    }
    if (rows.mean != nullptr)
      for (std::int64_t i = 0; i < width; ++i) dbias[i] += widen(dout[i]);
  }
}

#define TRIREME_INSTANTIATE(T)                                                         \
  template void norm<T>(const NormRows<T>&, T*, std::int64_t, std::int64_t);           \
  template void norm_backward<T>(const NormRows<T>&, const T*, T*, Wide<T>*, Wide<T>*, \
                                 std::int64_t, std::int64_t);
TRIREME_INSTANTIATE(double)
TRIREME_INSTANTIATE(float)
TRIREME_INSTANTIATE(c10::BFloat16)
#undef TRIREME_INSTANTIATE

}  // namespace trireme::ops::kernels
