// Vectors of Wide<T> over memory of T, for one instruction set; included once for each by Highway. One kernel body
// serves whole vectors and the rest of a row: over() passes it a place.
#if defined(TRIREME_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_LANES_INL_H_
#undef TRIREME_LANES_INL_H_
#else
#define TRIREME_LANES_INL_H_
#endif

#include <hwy/cache_control.h>
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
#if HWY_TARGET <= HWY_AVX3
  // One instruction instead of two: a permutation that zeros the lower half of each lane.
  const auto places = hn::ShiftLeft<16>(hn::Iota(bits, 0));
  const __m512i spread =
      _mm512_maskz_permutexvar_epi16(0xAAAAAAAAu, places.raw, _mm512_castsi256_si512(stored.raw));
  return {_mm512_castsi512_ps(spread)};
#else
  return hn::BitCast(Tag<float>(), hn::ShiftLeft<16>(hn::PromoteTo(bits, stored)));
#endif
}

HWY_INLINE Vector<float> load(const c10::Half* p) {
  const hn::Rebind<hwy::float16_t, Tag<float>> half;
  return hn::PromoteTo(Tag<float>(), hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(p)));
}

HWY_INLINE void store(double* p, Vector<double> x) { hn::StoreU(x, Tag<double>(), p); }
HWY_INLINE void store(float* p, Vector<float> x) { hn::StoreU(x, Tag<float>(), p); }
// To nearest, ties to even. NaN stays one: no arithmetic makes those whose payload the rounding would carry
// over. The instruction takes what is below the normal range for 0; volatile, it stays in its branch.
HWY_INLINE void store(c10::BFloat16* p, Vector<float> x) {
  const hn::Rebind<std::uint16_t, Tag<float>> half;
#if HWY_TARGET <= HWY_AVX3
  if (rounds_to_bf16) {
    __m256i rounded;
    asm volatile("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(x.raw));
    hn::StoreU(hn::Vec<decltype(half)>{rounded}, half, reinterpret_cast<std::uint16_t*>(p));
    return;
  }
#endif
  const hn::Rebind<std::uint32_t, Tag<float>> bits;
  const auto raw = hn::BitCast(bits, x);
  const auto odd = hn::And(hn::ShiftRight<16>(raw), hn::Set(bits, 1u));
  const auto rounded = hn::Add(hn::Add(raw, hn::Set(bits, 0x7FFFu)), odd);
  hn::StoreU(hn::TruncateTo(half, hn::ShiftRight<16>(rounded)), half,
             reinterpret_cast<std::uint16_t*>(p));
}

// To nearest, ties to even; infinite beyond the range.
HWY_INLINE void store(c10::Half* p, Vector<float> x) {
  const hn::Rebind<hwy::float16_t, Tag<float>> half;
  hn::StoreU(hn::DemoteTo(half, x), half, reinterpret_cast<hwy::float16_t*>(p));
}

// Asks memory for the line at p, once as vectors pass over it. Prefetchers follow one stream well; a kernel that
// alternates between rows asks for its next data itself. p may be after the end.
template <typename T>
HWY_INLINE void fetch(const T* p) {
  constexpr std::uintptr_t kLine = 64, kVector = static_cast<std::uintptr_t>(kLanes<T>) * sizeof(T);
  if (reinterpret_cast<std::uintptr_t>(p) % kLine < kVector) hwy::Prefetch(p);
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

// The last `count` elements of a row in memory with space for whole vectors: reads beyond the row and writes zeros
// there.
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

// y[i] = function(x[i]), four vectors at a time: long chains of arithmetic overlap where no store lies between them.
template <typename T, typename Function>
HWY_INLINE void map(const T* x, T* y, std::int64_t count, const Function& function) {
  constexpr std::int64_t n = kLanes<T>;
  std::int64_t i = 0;
  for (; i + 4 * n <= count; i += 4 * n) {
    const Vector<T> a = load(x + i), b = load(x + i + n), c = load(x + i + 2 * n),
                    d = load(x + i + 3 * n);
    const Vector<T> fa = function(a), fb = function(b), fc = function(c), fd = function(d);
    store(y + i, fa);
    store(y + i + n, fb);
    store(y + i + 2 * n, fc);
    store(y + i + 3 * n, fd);
  }
  over<T>(count - i, [&](auto at) { at.store(y + i, function(at.load(x + i))); });
}

// Calls body(place, index) likewise, where index says which of two running vectors is that vector's: one alone
// would have to wait for every addition.
template <typename T, typename Body>
HWY_INLINE void over_in_turns(std::int64_t count, const Body& body) {
  std::int64_t i = 0;
  for (; i + 2 * kLanes<T> <= count; i += 2 * kLanes<T>) {
    body(Whole{i}, 0);
    body(Whole{i + kLanes<T>}, 1);
  }
  for (; i + kLanes<T> <= count; i += kLanes<T>) body(Whole{i}, 0);
  if (i < count) body(Part{i, count - i}, 1);
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

// Arithmetic with results in bf16 and fp16 takes powers of 2, which cost less than those of e: e^x is
// power<T>(kExponent<T> * x).
template <typename T>
constexpr Wide<T> kExponent = sizeof(T) == 2 ? Wide<T>(1.44269504088896) : 1;

// e^x for float, to 2 ulp: 2^n times Taylor's terms to the seventh on [-ln2/2, ln2/2] (Cody & Waite's
// reduction). Saturates at the ends of the normal range; NaN stays NaN.
HWY_INLINE Vector<float> power_of_e(Vector<float> x) {
  const Tag<float> d;
  const hn::Rebind<std::int32_t, Tag<float>> whole;
  // In this order a NaN comes through.
  x = hn::Min(hn::Set(d, 88.0f), hn::Max(hn::Set(d, -87.0f), x));
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
  return hn::BitCast(
      d, hn::Add(hn::BitCast(whole, p), hn::ShiftLeft<23>(hn::BitCast(whole, shifted))));
}

// 2^x, to 3e-6: 2^floor(x) times the polynomial of degree 4 for the rest with the least relative error
// that is 1 at 0. Saturates at the ends of the range; NaN stays NaN.
HWY_INLINE Vector<float> power_of_two(Vector<float> x) {
  const Tag<float> d;
#if HWY_TARGET <= HWY_AVX3
  const Vector<float> r{_mm512_reduce_ps(x.raw, _MM_FROUND_TO_NEG_INF)};
#else
  x = hn::Min(hn::Set(d, 127.0f), hn::Max(hn::Set(d, -126.0f), x));
  const auto below = hn::Floor(x);
  const auto r = hn::Sub(x, below);
#endif
  auto p = hn::MulAdd(hn::Set(d, 0.013426684f), r, hn::Set(d, 0.0522424742f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.241280205f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.693044845f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
#if HWY_TARGET <= HWY_AVX3
  return {_mm512_scalef_ps(p.raw, x.raw)};
#else
  const hn::Rebind<std::int32_t, Tag<float>> whole;
  // A product: of a NaN's bits addition would make a number.
  const auto octave = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(whole, below), hn::Set(whole, 127)));
  return hn::Mul(p, hn::BitCast(d, octave));
#endif
}

template <typename T>
HWY_INLINE Vector<T> power(Vector<T> x) {
  if constexpr (std::is_same_v<T, double>)
    return hn::Exp(Tag<double>(), x);
  else if constexpr (std::is_same_v<T, float>)
    return power_of_e(x);
  else
    return power_of_two(x);
}

// 1 / (1 + power(x)); to 12 bits at least where results are stored in bf16.
template <typename T>
HWY_INLINE Vector<T> share_of_one(Vector<T> x) {
  const Vector<T> one = fill<T>(1);
  const Vector<T> sum = hn::Add(one, power<T>(x));
  if constexpr (std::is_same_v<T, c10::BFloat16>)
    return hn::ApproximateReciprocal(sum);
  else
    return hn::Div(one, sum);
}

// 1 / (1 + e^-x)
template <typename T>
HWY_INLINE Vector<T> sigmoid(Vector<T> x) {
  return share_of_one<T>(hn::Mul(fill<T>(-kExponent<T>), x));
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
