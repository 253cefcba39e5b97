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

// Gain, with its offset, and bias in arithmetic's type; 0 if there are none.
template <typename T>
class Affine {
 public:
  template <typename X>
  explicit Affine(const NormRows<T, X>& rows)
      : stride_((rows.width + kLanes<T> - 1) / kLanes<T> * kLanes<T>),
        memory_(static_cast<std::size_t>(2 * stride_)) {
    widen(rows.gain, rows.width, memory_.data());
    widen(rows.bias, rows.width, memory_.data() + stride_);
    if (rows.offset != 0)
      for (std::int64_t i = 0; i < rows.width; ++i)
        memory_[static_cast<std::size_t>(i)] += static_cast<Wide<T>>(rows.offset);
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

// How far before its use memory is asked for a row's elements.
template <typename T>
constexpr std::int64_t kAhead = 4096 / sizeof(T);

// A row is written while the next one is read: memory never waits for arithmetic, nor for the end of a row's sums.
template <typename T, typename X, bool kBranch, bool kMean>
class Forward {
 public:
  using A = Wide<T>;
  Forward(const NormRows<T, X>& rows, const T* branch, X* sum, T* y)
      : rows_(rows), branch_(branch), stream_(kBranch ? sum : const_cast<X*>(rows.x)), y_(y) {}

  void run(std::int64_t begin, std::int64_t end) const {
    Row row = pass<true, false>(begin, {});
    for (std::int64_t r = begin + 1; r < end; ++r) row = pass<true, true>(r, row);
    pass<false, true>(end, row);
  }

 private:
  // Statistics of a row.
  struct Row {
    A mean = 0, scale = 0;
  };

  // Reads row r, writes the one before it.
  template <bool kRead, bool kWrite>
  Row pass(std::int64_t r, const Row& before) const {
    const std::int64_t width = rows_.width;
    const X* const in = rows_.x + r * width;
    const T* const branch = branch_ + r * width;
    X* const stream = stream_ + r * width;
    T* const out = y_ + (r - 1) * width;
    const A* const gain = affine_.gain();
    const A* const bias = affine_.bias();
    const Vector<T> middle = fill<T>(before.mean), stretch = fill<T>(before.scale);
    if (kRead && kBranch)
      stream[0] = static_cast<X>(static_cast<A>(in[0]) + static_cast<A>(branch[0]));
    // Sums about the first element, which lies within sqrt(width) deviations of the mean: little cancels.
    const A origin = kRead && kMean ? static_cast<A>(stream[0]) : A(0);
    const Vector<T> first = fill<T>(origin);
    Vector<T> total[2] = {fill<T>(0), fill<T>(0)};
    Vector<T> squares[2] = {fill<T>(0), fill<T>(0)};
    over_in_turns<T>(
        width, [&](auto at, int k) __attribute__((always_inline)) {
          if constexpr (kRead) {
            fetch(in + at.i + kAhead<X>);
            if (kBranch) fetch(branch + at.i + kAhead<T>);
            if (kBranch) at.store(stream, hn::Add(at.load(in), at.load(branch)));
            const Vector<T> off = at.template only<T>(hn::Sub(at.load(stream), first));
            total[k] = hn::Add(total[k], off);
            squares[k] = hn::MulAdd(off, off, squares[k]);
          }
          if constexpr (kWrite) {
            const Vector<T> normed = hn::Mul(hn::Sub(at.load(stream - width), middle), stretch);
            at.store(out, hn::MulAdd(normed, at.load(gain), at.load(bias)));
          }
        });
    if (!kRead) return {};
    return finish(r, origin, reduce<T>(hn::Add(total[0], total[1])),
                  reduce<T>(hn::Add(squares[0], squares[1])));
  }

  Row finish(std::int64_t r, A origin, A total, A squares) const {
    const A count = static_cast<A>(rows_.width);
    const A off = kMean ? total / count : A(0);
    const A mean = origin + off;
    A variance = squares / count - off * off;
    if constexpr (!std::is_same_v<X, c10::BFloat16>) {  // where what cancelled would be seen
      const X* const row = stream_ + r * rows_.width;
      variance = sum_over<T>(rows_.width,
                             [&](auto at) {
                               const Vector<T> d = hn::Sub(at.load(row), fill<T>(mean));
                               return hn::Mul(d, d);
                             }) /
                 count;
    }
    const A scale = A(1) / std::sqrt(std::max(variance, A(0)) + static_cast<A>(rows_.eps));
    if (kMean) rows_.mean[r] = mean;
    rows_.scale[r] = scale;
    return {.mean = mean, .scale = scale};
  }

  const NormRows<T, X>& rows_;
  const T* branch_;
  X* stream_;
  T* y_;
  Affine<T> affine_{rows_};
};

template <typename T, typename X>
void forward(const NormRows<T, X>& rows, const T* branch, X* sum, T* y, std::int64_t begin,
             std::int64_t end) {
  if (begin == end) return;
  if (branch != nullptr && rows.mean != nullptr)
    Forward<T, X, true, true>(rows, branch, sum, y).run(begin, end);
  else if (branch != nullptr)
    Forward<T, X, true, false>(rows, branch, sum, y).run(begin, end);
  else if (rows.mean != nullptr)
    Forward<T, X, false, true>(rows, branch, sum, y).run(begin, end);
  else
    Forward<T, X, false, false>(rows, branch, sum, y).run(begin, end);
}

// With g = dy * gain and n = (x - mean) * scale: dx = scale * (g - avg(g) - n * avg(g n)). Here avg(g) is mean's share
// (Ba et al. 2016; Zhang & Sennrich 2019 without it). One row after the other: more streams at once, or prefetching,
// make memory slower.
template <typename T, typename X>
void backward(const NormRows<T, X>& rows, const T* dy, const X* residual, X* dx, Wide<T>* dgain,
              Wide<T>* dbias, std::int64_t begin, std::int64_t end) {
  using A = Wide<T>;
  const std::int64_t width = rows.width;
  const A count = static_cast<A>(width);
  const Affine<T> affine(rows);
  for (std::int64_t r = begin; r < end; ++r) {
    const X* const x = rows.x + r * width;
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
  using A = Wide<T>;
  return {{.forward = forward<T, T>, .backward = backward<T, T>},
          {.forward = forward<T, A>, .backward = backward<T, A>}};
}
TRIREME_KERNELS_OF_TARGET(NormKernels, norm_kernels)

}  // namespace trireme::ops::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::kernels {
TRIREME_KERNELS(NormKernels, norm_kernels)
}  // namespace trireme::ops::kernels
#endif
