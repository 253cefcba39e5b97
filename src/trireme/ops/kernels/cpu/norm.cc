#include "trireme/ops/kernels/cpu/norm.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/ops/kernels/cpu/norm.cc"
#include "hwy/foreach_target.h"
#include "trireme/ops/kernels/cpu/dispatch-inl.h"
#include "trireme/ops/kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::kernels::HWY_NAMESPACE {

template <typename T>
void forward(const NormRows<T>& rows, const T* branch, T* sum, T* y, std::int64_t begin,
             std::int64_t end) {
  using A = Wide<T>;
  const std::int64_t width = rows.width;
  const A count = static_cast<A>(width);
  for (std::int64_t r = begin; r < end; ++r) {
    const T* x = rows.x + r * width;
    if (branch != nullptr) {
      T* const added = sum + r * width;
      over<T>(width,
              [&](auto at) { at.store(added, hn::Add(at.load(x), at.load(branch + r * width))); });
      x = added;
    }
    A mean = 0;
    if (rows.mean != nullptr) {
      mean = sum_over<T>(width, [&](auto at) { return at.load(x); }) / count;
      rows.mean[r] = mean;
    }
    const auto middle = fill<T>(mean);
    const A variance = sum_over<T>(width,
                                   [&](auto at) {
                                     const auto centred = hn::Sub(at.load(x), middle);
                                     return hn::Mul(centred, centred);
                                   }) /
                       count;
    const A scale = A(1) / std::sqrt(variance + static_cast<A>(rows.eps));
    rows.scale[r] = scale;
    const auto stretch = fill<T>(scale);
    const auto normed = [&](auto at) {
      return hn::Mul(hn::Mul(hn::Sub(at.load(x), middle), stretch), at.load(rows.gain));
    };
    T* const out = y + r * width;
    if (rows.bias != nullptr)
      over<T>(width, [&](auto at) { at.store(out, hn::Add(normed(at), at.load(rows.bias))); });
    else
      over<T>(width, [&](auto at) { at.store(out, normed(at)); });
  }
}

// With g = dy * gain and n = (x - mean) * scale: dx = scale * (g - avg(g) - n * avg(g n)), where avg(g) is
// mean's share (Ba et al. 2016; Zhang & Sennrich 2019 without it).
template <typename T>
void backward(const NormRows<T>& rows, const T* dy, const T* residual, T* dx, Wide<T>* dgain,
              Wide<T>* dbias, std::int64_t begin, std::int64_t end) {
  using A = Wide<T>;
  const std::int64_t width = rows.width;
  const A count = static_cast<A>(width);
  for (std::int64_t r = begin; r < end; ++r) {
    const T* const x = rows.x + r * width;
    const T* const dout = dy + r * width;
    T* const din = dx + r * width;
    const auto middle = fill<T>(rows.mean != nullptr ? rows.mean[r] : A(0));
    const auto stretch = fill<T>(rows.scale[r]);
    const auto normed = [&](auto at) { return hn::Mul(hn::Sub(at.load(x), middle), stretch); };
    const auto scaled = [&](auto at) { return hn::Mul(at.load(dout), at.load(rows.gain)); };
    A average = 0;
    if (rows.mean != nullptr) average = sum_over<T>(width, scaled) / count;
    const A slope =
        sum_over<T>(width, [&](auto at) { return hn::Mul(scaled(at), normed(at)); }) / count;
    const auto flat = fill<T>(average);
    const auto steep = fill<T>(slope);
    over<T>(width, [&](auto at) {
      const auto n = normed(at);
      const auto out = at.load(dout);
      at.store(dgain, hn::MulAdd(out, n, at.load(dgain)));
      const auto centred = hn::Sub(hn::Mul(out, at.load(rows.gain)), flat);
      auto in = hn::Mul(hn::NegMulAdd(n, steep, centred), stretch);
      if (residual != nullptr) in = hn::Add(in, at.load(residual + r * width));
      at.store(din, in);
    });
    if (rows.mean != nullptr)
      over<T>(width, [&](auto at) { at.store(dbias, hn::Add(at.load(dbias), at.load(dout))); });
  }
}

template <typename T>
NormKernels<T> make() {
  return {.forward = forward<T>, .backward = backward<T>};
}
TRIREME_KERNELS_OF_TARGET(NormKernels, norm_kernels)

}  // namespace trireme::ops::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::kernels {
TRIREME_KERNELS(NormKernels, norm_kernels)
}  // namespace trireme::ops::kernels
#endif
