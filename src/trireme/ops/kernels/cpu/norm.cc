#include "trireme/ops/kernels/cpu/norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/ops/kernels/cpu/norm.cc"
#include <hwy/foreach_target.h>

#include "trireme/ops/kernels/cpu/dispatch-inl.h"
#include "trireme/ops/kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::kernels::HWY_NAMESPACE {

template <typename T>
HWY_INLINE Wide<T> reduce(Vector<T> x) {
  return hn::GetLane(hn::SumOfLanes(Tag<T>(), x));
}

// Gain and bias in arithmetic's type; 0 where there are none.
template <typename T>
class Affine {
 public:
  explicit Affine(const NormRows<T>& rows)
      : stride_((rows.width + kLanes<T> - 1) / kLanes<T> * kLanes<T>),
        memory_(static_cast<std::size_t>(2 * stride_)) {
    widen(rows.gain, rows.width, memory_.data());
    widen(rows.bias, rows.width, memory_.data() + stride_);
  }
  const Wide<T>* gain() const { return memory_.data(); }
  const Wide<T>* bias() const { return memory_.data() + stride_; }

 private:
  static void widen(const T* from, std::int64_t width, Wide<T>* to) {
    if (from != nullptr) over<T>(width, [&](auto at) { at.store(to, at.load(from)); });
  }

  std::int64_t stride_;
  std::vector<Wide<T>> memory_;
};

// Rows one after the other: several at once hide latencies, but memory's prefetchers lose their way.
template <typename T>
void forward(const NormRows<T>& rows, const T* branch, T* sum, T* y, std::int64_t begin,
             std::int64_t end) {
  using A = Wide<T>;
  const std::int64_t width = rows.width;
  const A count = static_cast<A>(width);
  const Affine<T> affine(rows);
  for (std::int64_t r = begin; r < end; ++r) {
    const T* const in = rows.x + r * width;
    const T* x = in;
    if (branch != nullptr) {
      x = sum + r * width;
      sum[r * width] = static_cast<T>(static_cast<A>(in[0]) + static_cast<A>(branch[r * width]));
    }
    // Sums about the first element, which lies within sqrt(width) deviations of the mean: little cancels.
    const A origin = rows.mean != nullptr ? static_cast<A>(x[0]) : A(0);
    Vector<T> total[2] = {fill<T>(0), fill<T>(0)};
    Vector<T> squares[2] = {fill<T>(0), fill<T>(0)};
    over_in_turns<T>(width, [&](auto at, int k) {
      if (branch != nullptr)
        at.store(sum + r * width, hn::Add(at.load(in), at.load(branch + r * width)));
      const Vector<T> off = at.template only<T>(hn::Sub(at.load(x), fill<T>(origin)));
      total[k] = hn::Add(total[k], off);
      squares[k] = hn::MulAdd(off, off, squares[k]);
    });
    const A off = rows.mean != nullptr ? reduce<T>(hn::Add(total[0], total[1])) / count : A(0);
    const A mean = origin + off;
    A variance = reduce<T>(hn::Add(squares[0], squares[1])) / count - off * off;
    if constexpr (!std::is_same_v<T, c10::BFloat16>)  // where what cancelled would be seen
      variance = sum_over<T>(width,
                             [&](auto at) {
                               const Vector<T> d = hn::Sub(at.load(x), fill<T>(mean));
                               return hn::Mul(d, d);
                             }) /
                 count;
    const A scale = A(1) / std::sqrt(std::max(variance, A(0)) + static_cast<A>(rows.eps));
    if (rows.mean != nullptr) rows.mean[r] = mean;
    rows.scale[r] = scale;
    const Vector<T> middle = fill<T>(mean), stretch = fill<T>(scale);
    over<T>(width, [&](auto at) {
      const Vector<T> normed = hn::Mul(hn::Sub(at.load(x), middle), stretch);
      at.store(y + r * width, hn::MulAdd(normed, at.load(affine.gain()), at.load(affine.bias())));
    });
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
  const Affine<T> affine(rows);
  for (std::int64_t r = begin; r < end; ++r) {
    const T* const x = rows.x + r * width;
    const T* const out = dy + r * width;
    const Vector<T> stretch = fill<T>(rows.scale[r]);
    const Vector<T> middle = fill<T>(rows.mean != nullptr ? rows.mean[r] : A(0));
    Vector<T> total = fill<T>(0), product = fill<T>(0);
    over<T>(width, [&](auto at) {
      const Vector<T> n = hn::Mul(hn::Sub(at.load(x), middle), stretch);
      const Vector<T> g = at.template only<T>(hn::Mul(at.load(out), at.load(affine.gain())));
      at.store(dgain, hn::MulAdd(at.load(out), n, at.load(dgain)));
      product = hn::MulAdd(g, n, product);
      if (rows.mean != nullptr) {
        at.store(dbias, hn::Add(at.load(dbias), at.load(out)));
        total = hn::Add(total, g);
      }
    });
    const Vector<T> average = fill<T>(reduce<T>(total) / count);
    const Vector<T> slope = fill<T>(reduce<T>(product) / count);
    over<T>(width, [&](auto at) {
      const Vector<T> n = hn::Mul(hn::Sub(at.load(x), middle), stretch);
      const Vector<T> g = hn::Mul(at.load(out), at.load(affine.gain()));
      Vector<T> in = hn::Mul(hn::NegMulAdd(n, slope, hn::Sub(g, average)), stretch);
      if (residual != nullptr) in = hn::Add(in, at.load(residual + r * width));
      at.store(dx + r * width, in);
    });
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
