// Vectors of Wide<T> over memory of T, for one instruction set; included once for each by Highway.
// A kernel is written for whole vectors and the rest of a row alike: over() hands its body a place.
#if defined(TRIREME_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_LANES_INL_H_
#undef TRIREME_LANES_INL_H_
#else
#define TRIREME_LANES_INL_H_
#endif

#include <cstring>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
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
// To nearest, ties to even; NaN stays one.
HWY_INLINE void store(c10::BFloat16* p, Vector<float> x) {
  const hn::Rebind<std::uint16_t, Tag<float>> half;
  const hn::Rebind<std::uint32_t, Tag<float>> bits;
  const hn::Rebind<std::int32_t, Tag<float>> whole;
  const auto raw = hn::BitCast(bits, x);
  const auto odd = hn::And(hn::ShiftRight<16>(raw), hn::Set(bits, 1u));
  const auto rounded = hn::Add(hn::Add(raw, hn::Set(bits, 0x7FFFu)), odd);
  const auto number = hn::RebindMask(bits, hn::Eq(x, x));
  const auto high = hn::ShiftRight<16>(hn::IfThenElse(number, rounded, hn::Set(bits, 0x7FC00000u)));
  hn::StoreU(hn::DemoteTo(half, hn::BitCast(whole, high)), half,
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

// Calls body(place) for all of a row of `count` elements of T.
template <typename T, typename Body>
HWY_INLINE void over(std::int64_t count, const Body& body) {
  std::int64_t i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) body(Whole{i});
  if (i < count) body(Part{i, count - i});
}

// Sum over a row of term(place), by four running vectors: the order depends on the count alone.
template <typename T, typename Term>
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
    const Part rest{i, count - i};
    b = hn::Add(b, rest.only<T>(term(rest)));
  }
  return hn::GetLane(hn::SumOfLanes(Tag<T>(), hn::Add(hn::Add(a, b), hn::Add(c, d))));
}

// Largest of row[0 .. count), which is not empty.
template <typename T>
HWY_INLINE Wide<T> max_over(const T* row, std::int64_t count) {
  const Vector<T> first = fill<T>(static_cast<Wide<T>>(row[0]));
  Vector<T> a = first, b = first;
  std::int64_t i = 0;
  for (; i + 2 * kLanes<T> <= count; i += 2 * kLanes<T>) {
    a = hn::Max(a, load(row + i));
    b = hn::Max(b, load(row + i + kLanes<T>));
  }
  for (; i + kLanes<T> <= count; i += kLanes<T>) a = hn::Max(a, load(row + i));
  if (i < count) b = hn::Max(b, Part{i, count - i}.load_or(row, first));
  return hn::GetLane(hn::MaxOfLanes(Tag<T>(), hn::Max(a, b)));
}

// e^x to 2 ulp: 2^n times a polynomial on [-ln2/2, ln2/2] (Cody & Waite's reduction, Taylor terms to the
// seventh). Saturates at the ends of the normal range; NaN stays NaN.
HWY_INLINE Vector<float> exponential(Vector<float> x) {
  const Tag<float> d;
  const hn::Rebind<std::int32_t, Tag<float>> whole;
  x = hn::IfThenElse(hn::Lt(x, hn::Set(d, -87.0f)), hn::Set(d, -87.0f), x);
  x = hn::IfThenElse(hn::Gt(x, hn::Set(d, 88.0f)), hn::Set(d, 88.0f), x);
  const auto shift = hn::Set(d, 12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const auto shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), shift);
  const auto n = hn::Sub(shifted, shift);
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::MulAdd(n, hn::Set(d, 2.12194440e-4f), r);
  auto p = hn::MulAdd(hn::Set(d, 1.0f / 5040), r, hn::Set(d, 1.0f / 720));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 120));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 24));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 6));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  const auto power = hn::ShiftLeft<23>(hn::BitCast(whole, shifted));
  return hn::BitCast(d, hn::Add(hn::BitCast(whole, p), power));
}
HWY_INLINE Vector<double> exponential(Vector<double> x) { return hn::Exp(Tag<double>(), x); }

// 1 / (1 + e^-x).
template <typename T>
HWY_INLINE Vector<T> sigmoid(Vector<T> x) {
  const Vector<T> one = fill<T>(1);
  return hn::Div(one, hn::Add(one, exponential(hn::Neg(x))));
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
