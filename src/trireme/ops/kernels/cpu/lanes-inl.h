// Vectors of Wide<T> over memory of T, for one instruction set; included once for each by Highway.
// A kernel is written for whole vectors and the rest of a row alike: over() hands its body a place.
#if defined(TRIREME_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_LANES_INL_H_
#undef TRIREME_LANES_INL_H_
#else
#define TRIREME_LANES_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cstring>

#include "trireme/ops/kernels/cpu/types.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
using Tag = hn::ScalableTag<Wide<T>>;
template <typename T>
using Vector = hn::Vec<Tag<T>>;
template <typename T>
constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(Tag<T>()));

template <typename T>
HWY_INLINE Vector<T> fill(Wide<T> x) {
  return hn::Set(Tag<T>(), x);
}

HWY_INLINE Vector<double> load(const double* p) { return hn::LoadU(Tag<double>(), p); }
HWY_INLINE Vector<float> load(const float* p) { return hn::LoadU(Tag<float>(), p); }
HWY_INLINE Vector<float> load(const c10::BFloat16* p) {
  const hn::Rebind<std::uint16_t, Tag<float>> half;
  const hn::Rebind<std::uint32_t, Tag<float>> bits;
  const auto stored = hn::LoadU(half, reinterpret_cast<const std::uint16_t*>(p));
  return hn::BitCast(Tag<float>(), hn::ShiftLeft<16>(hn::PromoteTo(bits, stored)));
}

HWY_INLINE void store(double* p, Vector<double> x) { hn::StoreU(x, Tag<double>(), p); }
HWY_INLINE void store(float* p, Vector<float> x) { hn::StoreU(x, Tag<float>(), p); }
// To nearest, ties to even. NaN stays one: no arithmetic makes those whose payload the rounding would carry
// over.
HWY_INLINE void store(c10::BFloat16* p, Vector<float> x) {
  const hn::Rebind<std::uint16_t, Tag<float>> half;
  const hn::Rebind<std::uint32_t, Tag<float>> bits;
  const auto raw = hn::BitCast(bits, x);
  const auto odd = hn::And(hn::ShiftRight<16>(raw), hn::Set(bits, 1u));
  const auto rounded = hn::Add(hn::Add(raw, hn::Set(bits, 0x7FFFu)), odd);
  hn::StoreU(hn::TruncateTo(half, hn::ShiftRight<16>(rounded)), half,
             reinterpret_cast<std::uint16_t*>(p));
}

// A whole vector at element `i` of any row.
struct Whole {
  std::int64_t i;

  template <typename T>
  HWY_INLINE Vector<T> load(const T* row) const {
    return HWY_NAMESPACE::load(row + i);
  }
  template <typename T>
  HWY_INLINE Vector<T> load_or(const T* row, Vector<T>) const {
    return HWY_NAMESPACE::load(row + i);
  }
  template <typename T>
  HWY_INLINE void store(T* row, Vector<T> x) const {
    HWY_NAMESPACE::store(row + i, x);
  }
  // x where the row has elements, else 0.
  template <typename T>
  HWY_INLINE Vector<T> only(Vector<T> x) const {
    return x;
  }
};

// The last `count` elements of a row.
struct Part {
  std::int64_t i;
  std::int64_t count;

  template <typename T>
  HWY_INLINE Vector<T> load(const T* row) const {
    T buffer[kLanes<T>] = {};
    std::memcpy(static_cast<void*>(buffer), row + i, static_cast<std::size_t>(count) * sizeof(T));
    return HWY_NAMESPACE::load(buffer);
  }
  template <typename T>
  HWY_INLINE Vector<T> load_or(const T* row, Vector<T> other) const {
    return hn::IfThenElse(hn::FirstN(Tag<T>(), static_cast<std::size_t>(count)), load(row), other);
  }
  template <typename T>
  HWY_INLINE void store(T* row, Vector<T> x) const {
    T buffer[kLanes<T>];
    HWY_NAMESPACE::store(buffer, x);
    std::memcpy(static_cast<void*>(row + i), buffer, static_cast<std::size_t>(count) * sizeof(T));
  }
  template <typename T>
  HWY_INLINE Vector<T> only(Vector<T> x) const {
    return hn::IfThenElseZero(hn::FirstN(Tag<T>(), static_cast<std::size_t>(count)), x);
  }
};

// The last `count` elements of a row in memory with room for whole vectors: reads what lies behind them and
// writes zeros there.
struct Padded {
  std::int64_t i;
  std::int64_t count;

  template <typename T>
  HWY_INLINE Vector<T> load(const T* row) const {
    return HWY_NAMESPACE::load(row + i);
  }
  template <typename T>
  HWY_INLINE Vector<T> load_or(const T* row, Vector<T> other) const {
    return hn::IfThenElse(hn::FirstN(Tag<T>(), static_cast<std::size_t>(count)), load(row), other);
  }
  template <typename T>
  HWY_INLINE void store(T* row, Vector<T> x) const {
    HWY_NAMESPACE::store(row + i, only<T>(x));
  }
  template <typename T>
  HWY_INLINE Vector<T> only(Vector<T> x) const {
    return hn::IfThenElseZero(hn::FirstN(Tag<T>(), static_cast<std::size_t>(count)), x);
  }
};

// Calls body(place) for all of a row of `count` elements of T.
template <typename T, typename Rest = Part, typename Body>
HWY_INLINE void over(std::int64_t count, const Body& body) {
  std::int64_t i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) body(Whole{i});
  if (i < count) body(Rest{i, count - i});
}

// Sum over a row of term(place), by four running vectors: the order depends on the count alone.
template <typename T, typename Rest = Part, typename Term>
HWY_INLINE Wide<T> sum_over(std::int64_t count, const Term& term) {
  constexpr std::int64_t n = kLanes<T>;
  Vector<T> a = fill<T>(0), b = a, c = a, d = a;
  std::int64_t i = 0;
  for (; i + 4 * n <= count; i += 4 * n) {
    a = hn::Add(a, term(Whole{i}));
    b = hn::Add(b, term(Whole{i + n}));
    c = hn::Add(c, term(Whole{i + 2 * n}));
    d = hn::Add(d, term(Whole{i + 3 * n}));
  }
  for (; i + n <= count; i += n) a = hn::Add(a, term(Whole{i}));
  if (i < count) {
    const Rest rest{i, count - i};
    b = hn::Add(b, rest.template only<T>(term(rest)));
  }
  return hn::GetLane(hn::SumOfLanes(Tag<T>(), hn::Add(hn::Add(a, b), hn::Add(c, d))));
}

// Largest of row[0 .. count), which is not empty.
template <typename Rest = Part, typename T>
HWY_INLINE Wide<T> max_over(const T* row, std::int64_t count) {
  const Vector<T> first = fill<T>(static_cast<Wide<T>>(row[0]));
  Vector<T> a = first, b = first;
  std::int64_t i = 0;
  for (; i + 2 * kLanes<T> <= count; i += 2 * kLanes<T>) {
    a = hn::Max(a, load(row + i));
    b = hn::Max(b, load(row + i + kLanes<T>));
  }
  for (; i + kLanes<T> <= count; i += kLanes<T>) a = hn::Max(a, load(row + i));
  if (i < count) b = hn::Max(b, Rest{i, count - i}.load_or(row, first));
  return hn::GetLane(hn::MaxOfLanes(Tag<T>(), hn::Max(a, b)));
}

// e^x: 2^n times a polynomial on [-ln2/2, ln2/2] (Cody & Waite's reduction). To 2 ulp for float, by Taylor
// terms to the seventh; to 4e-6 where results are stored in bf16, by the polynomial of degree 4 through the
// interval's Chebyshev nodes. Saturates at the ends of the normal range; NaN stays NaN.
template <typename T>
HWY_INLINE Vector<T> exponential(Vector<T> x) {
  if constexpr (std::is_same_v<T, double>) {
    return hn::Exp(Tag<double>(), x);
  } else {
    const Tag<float> d;
    const hn::Rebind<std::int32_t, Tag<float>> whole;
    // In this order a NaN comes through.
    x = hn::Min(hn::Set(d, 88.0f), hn::Max(hn::Set(d, -87.0f), x));
    const auto shift = hn::Set(d, 12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
    const auto shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), shift);
    const auto n = hn::Sub(shifted, shift);
    Vector<float> r, p;
    if constexpr (std::is_same_v<T, float>) {
      r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
      r = hn::MulAdd(n, hn::Set(d, 2.12194440e-4f), r);
      p = hn::MulAdd(hn::Set(d, 1.0f / 5040), r, hn::Set(d, 1.0f / 720));
      p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 120));
      p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 24));
      p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 6));
      p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
      p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
    } else {
      r = hn::NegMulAdd(n, hn::Set(d, 0.693147182f), x);
      p = hn::MulAdd(hn::Set(d, 0.0418756445f), r, hn::Set(d, 0.16792143f));
      p = hn::MulAdd(p, r, hn::Set(d, 0.499993721f));
      p = hn::MulAdd(p, r, hn::Set(d, 0.999962295f));
    }
    p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
    const auto power = hn::ShiftLeft<23>(hn::BitCast(whole, shifted));
    return hn::BitCast(d, hn::Add(hn::BitCast(whole, p), power));
  }
}

// 1 / (1 + e^-x); to 12 bits at least where results are stored in bf16.
template <typename T>
HWY_INLINE Vector<T> sigmoid(Vector<T> x) {
  const Vector<T> one = fill<T>(1);
  const Vector<T> sum = hn::Add(one, exponential<T>(hn::Neg(x)));
  if constexpr (std::is_same_v<T, c10::BFloat16>)
    return hn::ApproximateReciprocal(sum);
  else
    return hn::Div(one, sum);
}

// `factor` for the elements of a vector at column `i` that noise keeps, 0 for the others.
template <typename T>
HWY_INLINE Vector<T> kept(const Keep& keep, std::uint32_t row, std::int64_t i, Wide<T> factor) {
  Wide<T> factors[kLanes<T>];
  for (std::int64_t lane = 0; lane < kLanes<T>; ++lane)
    factors[lane] = keep(row, static_cast<std::uint32_t>(i + lane)) ? factor : Wide<T>(0);
  return hn::LoadU(Tag<T>(), factors);
}

}  // namespace trireme::ops::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
