#include "trireme/ops/kernels/cpu/norm.h"

#include <cmath>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/ops/kernels/cpu/norm.cc"
#include <hwy/foreach_target.h>

#include "trireme/ops/kernels/cpu/dispatch-inl.h"
#include "trireme/ops/kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::kernels::HWY_NAMESPACE {

// Rows of Wide<T> beside the data: what every row of a call needs again.
template <typename T>
class Scratch {
 public:
  explicit Scratch(std::int64_t width)
      : stride_((width + kLanes<T> - 1) / kLanes<T> * kLanes<T>),
        memory_(static_cast<std::size_t>(3 * stride_)) {}
  Wide<T>* row(int index) { return memory_.data() + index * stride_; }
  // The same numbers in arithmetic's type; 0 where there are none.
  const Wide<T>* widened(int index, const T* from, std::int64_t width) {
    if (from != nullptr)
      over<T, Part>(width, [&](auto at) { at.store(row(index), at.load(from)); });
    return row(index);
  }

 private:
  std::int64_t stride_;
  std::vector<Wide<T>> memory_;
};

template <typename T>
void forward(const NormRows<T>& rows, const T* branch, T* sum, T* y, std::int64_t begin,
             std::int64_t end) {
  using A = Wide<T>;
  const std::int64_t width = rows.width;
  const A count = static_cast<A>(width);
  Scratch<T> scratch(width);
  const A* const gain = scratch.widened(0, rows.gain, width);
  const A* const bias = scratch.widened(1, rows.bias, width);
  A* const wide = scratch.row(2);
  for (std::int64_t r = begin; r < end; ++r) {
    const T* x = rows.x + r * width;
    if (branch != nullptr) {
      T* const added = sum + r * width;
      over<T>(width,
              [&](auto at) { at.store(added, hn::Add(at.load(x), at.load(branch + r * width))); });
      x = added;
    }
    const A total = sum_over<T>(width, [&](auto at) {
      const Vector<T> in = at.load(x);
      at.store(wide, in);
      return in;
    });
    const A mean = rows.mean != nullptr ? total / count : A(0);
    if (rows.mean != nullptr) rows.mean[r] = mean;
    const Vector<T> middle = fill<T>(mean);
    const A variance = sum_over<T>(width,
                                   [&](auto at) {
                                     const Vector<T> centred = hn::Sub(at.load(wide), middle);
                                     return hn::Mul(centred, centred);
                                   }) /
                       count;
    const A scale = A(1) / std::sqrt(variance + static_cast<A>(rows.eps));
    rows.scale[r] = scale;
    const Vector<T> stretch = fill<T>(scale);
    over<T>(width, [&](auto at) {
      const Vector<T> normed = hn::Mul(hn::Sub(at.load(wide), middle), stretch);
      at.store(y + r * width, hn::MulAdd(normed, at.load(gain), at.load(bias)));
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
  Scratch<T> scratch(width);
  const A* const gain = scratch.widened(0, rows.gain, width);
  A* const normed = scratch.row(1);
  A* const scaled = scratch.row(2);
  for (std::int64_t r = begin; r < end; ++r) {
    const Vector<T> middle = fill<T>(rows.mean != nullptr ? rows.mean[r] : A(0));
    const Vector<T> stretch = fill<T>(rows.scale[r]);
    Vector<T> total = fill<T>(0);
    const A product = sum_over<T>(width, [&](auto at) {
      const Vector<T> n = hn::Mul(hn::Sub(at.load(rows.x + r * width), middle), stretch);
      const Vector<T> out = at.load(dy + r * width);
      const Vector<T> g = hn::Mul(out, at.load(gain));
      at.store(normed, n);
      at.store(scaled, g);
      at.store(dgain, hn::MulAdd(out, n, at.load(dgain)));
      if (rows.mean != nullptr) {
        at.store(dbias, hn::Add(at.load(dbias), out));
        total = hn::Add(total, at.template only<T>(g));
      }
      return hn::Mul(g, n);
    });
    const Vector<T> average = fill<T>(hn::GetLane(hn::SumOfLanes(Tag<T>(), total)) / count);
    const Vector<T> slope = fill<T>(product / count);
    over<T>(width, [&](auto at) {
      const Vector<T> flat = hn::Sub(at.load(scaled), average);
      Vector<T> in = hn::Mul(hn::NegMulAdd(at.load(normed), slope, flat), stretch);
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
