#include "trireme/ops/kernels/cpu/scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/ops/kernels/cpu/scores.cc"
#include <hwy/foreach_target.h>

#include "trireme/ops/kernels/cpu/dispatch-inl.h"
#include "trireme/ops/kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::kernels::HWY_NAMESPACE {

// Zeroes the columns that a row does not see, by whole vectors: before it is written, and after the vectors that will
// be.
template <typename T>
HWY_INLINE void clear_unseen(T* row, const Interval& seen, std::int64_t columns) {
  const auto clear = [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for (std::int64_t c = begin; c < end; c += kLanes<T>) store(row + c, fill<T>(0));
  };
  clear(0, seen.begin);
  clear(seen.begin + (seen.end - seen.begin + kLanes<T> - 1) / kLanes<T> * kLanes<T>, columns);
}

// cap tanh(x / cap); a NaN stays one.
template <typename T>
HWY_INLINE Vector<T> capped(Vector<T> x, Wide<T> factor, Wide<T> cap) {
  const Vector<T> bent = hn::Tanh(Tag<T>(), hn::Mul(x, fill<T>(factor)));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Mul(bent, fill<T>(cap)));
}

// 1 - (x factor)^2: by how much a capped number follows what was capped.
template <typename T>
HWY_INLINE Vector<T> cap_slope(Vector<T> x, Wide<T> factor) {
  const Vector<T> share = hn::Mul(x, fill<T>(factor));
  return hn::NegMulAdd(share, share, fill<T>(1));
}

template <typename T>
void cap_scores(const ScoreBlock& block, Wide<T>* scores) {
  using A = Wide<T>;
  const A factor = static_cast<A>(block.scale / block.cap),
          cap = static_cast<A>(block.cap / block.scale);
  for (std::int64_t r = 0; r < block.rows; ++r) {
    const Interval seen = block.seen[r];
    A* const row = scores + r * block.stride + seen.begin;
    over<A, Padded>(seen.end - seen.begin,
                    [&](auto at) { at.store(row, capped<A>(at.load(row), factor, cap)); });
  }
}

template <typename T>
void cap_logits(T* logits, std::int64_t count, double cap) {
  using A = Wide<T>;
  const A factor = static_cast<A>(1 / cap);
  map<T>(logits, logits, count,
         [&](const Vector<T>& x) HWY_ATTR { return capped<T>(x, factor, static_cast<A>(cap)); });
}

template <typename T>
void softmax(const ScoreBlock& block, const Wide<T>* scores, T* probs,
             const Running<Wide<T>>& running, Wide<T>* factors) {
  using A = Wide<T>;
  const Vector<T> exponent = fill<T>(kExponent<T> * static_cast<A>(block.scale));
  A tops[kTileRows];  // found for all rows first: they need not wait for each other
  for (std::int64_t r = 0; r < block.rows; ++r) {
    const Interval seen = block.seen[r];
    if (seen.empty()) continue;
    tops[r] = std::max(running.tops[r], static_cast<A>(block.scale) *
                                            max_over<Padded>(scores + r * block.stride + seen.begin,
                                                             seen.end - seen.begin));
  }
  for (std::int64_t r = 0; r < block.rows; ++r) {
    const Interval seen = block.seen[r];
    const std::int64_t count = seen.end - seen.begin;
    const A* const row = scores + r * block.stride + seen.begin;
    T* const out = probs + r * block.stride + seen.begin;
    clear_unseen(out - seen.begin, seen, block.columns + block.columns % 2);  // read as pairs
    factors[r] = 1;
    if (count == 0) continue;
    const A top = tops[r];
    const Vector<T> below = fill<T>(-kExponent<T> * top);
    const auto weight = [&](auto at) HWY_ATTR {
      return power<T>(hn::MulAdd(exponent, at.load(row), below));
    };
    A sum;
    if (block.drop) {
      const std::uint32_t key = block.keep.row(static_cast<std::uint64_t>(block.place + r));
      const A factor = static_cast<A>(block.keep_scale);
      const std::int64_t column = block.first_column + seen.begin;
      sum = sum_over<A, Padded>(count, [&](auto at) {
        const Vector<T> e = weight(at);
        at.store(out, hn::Mul(e, kept<T>(block.keep, key, column + at.i, factor)));
        return e;
      });
    } else {
      sum = sum_over<A, Padded>(count, [&](auto at) {
        const Vector<T> e = weight(at);
        at.store(out, e);
        return e;
      });
    }
    factors[r] = std::exp(running.tops[r] - top);
    running.sums[r] = running.sums[r] * factors[r] + sum;
    running.tops[r] = top;
  }
}

template <typename T, bool kCapped>
void softmax_backward_of(const ScoreBlock& block, const Wide<T>* scores, const Wide<T>* dprobs,
                         const Wide<T>* log_sums, const Wide<T>* delta, T* probs, T* dscores) {
  using A = Wide<T>;
  const Vector<T> scale = fill<T>(static_cast<A>(block.scale));
  const A per_cap = kCapped ? static_cast<A>(block.scale / block.cap) : A(0);
  const auto scaled = [&](const Vector<T>& dscore, const Vector<T>& score) HWY_ATTR {
    const Vector<T> result = hn::Mul(dscore, scale);
    if constexpr (kCapped) return hn::Mul(result, cap_slope<T>(score, per_cap));
    return result;
  };
  const Vector<T> exponent = fill<T>(kExponent<T> * static_cast<A>(block.scale));
  for (std::int64_t r = 0; r < block.rows; ++r) {
    const Interval seen = block.seen[r];
    const std::int64_t count = seen.end - seen.begin, first = r * block.stride + seen.begin;
    const A* const row = scores + first;
    const A* const drow = dprobs + first;
    T* const p_out = probs + first;
    T* const d_out = dscores + first;
    clear_unseen(p_out - seen.begin, seen, block.columns);
    clear_unseen(d_out - seen.begin, seen, block.columns);
    const Vector<T> below = fill<T>(-kExponent<T> * log_sums[r]);
    const Vector<T> share = fill<T>(delta[r]);
    if (block.drop) {
      const std::uint32_t key = block.keep.row(static_cast<std::uint64_t>(block.place + r));
      const A factor = static_cast<A>(block.keep_scale);
      const std::int64_t column = block.first_column + seen.begin;
      over<A, Padded>(count, [&](auto at) {
        const Vector<T> keep = kept<T>(block.keep, key, column + at.i, factor);
        const Vector<T> score = at.load(row);
        const Vector<T> p = power<T>(hn::MulAdd(exponent, score, below));
        const Vector<T> slope = hn::Sub(hn::Mul(at.load(drow), keep), share);
        at.store(d_out, scaled(hn::Mul(p, slope), score));
        at.store(p_out, hn::Mul(p, keep));
      });
    } else {
      over<A, Padded>(count, [&](auto at) {
        const Vector<T> score = at.load(row);
        const Vector<T> p = power<T>(hn::MulAdd(exponent, score, below));
        at.store(d_out, scaled(hn::Mul(p, hn::Sub(at.load(drow), share)), score));
        at.store(p_out, p);
      });
    }
  }
}

template <typename T>
void softmax_backward(const ScoreBlock& block, const Wide<T>* scores, const Wide<T>* dprobs,
                      const Wide<T>* log_sums, const Wide<T>* delta, T* probs, T* dscores) {
  const auto run = block.cap > 0 ? softmax_backward_of<T, true> : softmax_backward_of<T, false>;
  run(block, scores, dprobs, log_sums, delta, probs, dscores);
}

// A row's target as a column; outside [0, rows.count) where it is not among the classes.
HWY_INLINE std::int64_t target_column(const LogitRows& rows, std::int64_t r) {
  return rows.targets[r] - rows.first;
}
HWY_INLINE bool among(const LogitRows& rows, std::int64_t column) {
  return column >= 0 && column < rows.count;
}

// Sum of e^(x - center).
template <typename T>
HWY_INLINE Wide<T> sum_about(Wide<T> center, const T* row, std::int64_t count) {
  const Vector<T> exponent = fill<T>(kExponent<T>), below = fill<T>(-kExponent<T> * center);
  return sum_over<T>(
      count, [&](auto at) __attribute__((always_inline)) {
        fetch(row + at.i + 4096 / sizeof(T));
        return power<T>(hn::MulAdd(exponent, at.load(row), below));
      });
}

// log of the sum of e^x over a row that is not empty, which is read once: about the largest element of its beginning.
// If other elements exceed that by far, the block's sum shows it, and the block is repeated with its own largest
// element.
template <typename T>
Wide<T> log_sum(const T* row, std::int64_t count) {
  using A = Wide<T>;
  constexpr A kMost = 1e15;    // of a block's sum: as many blocks as memory holds stay finite
  constexpr A kLeast = -1e30;  // where the beginning is minus infinity
  constexpr std::int64_t kBlock = 4096;
  // Highway's exponential of fp64 does not bear large arguments.
  const std::int64_t beginning =
      std::is_same_v<A, double> ? count : std::min<std::int64_t>(count, 512);
  A origin = std::max(max_over(row, beginning), kLeast), total = 0;
  for (std::int64_t i = 0; i < count; i += kBlock) {
    const std::int64_t size = std::min(kBlock, count - i);
    A sum = sum_about(origin, row + i, size);
    if (!(sum <= kMost)) {
      const A largest = std::max(origin, max_over(row + i, size));
      total *= std::exp(origin - largest);
      origin = largest;
      sum = sum_about(origin, row + i, size);
    }
    total += sum;
  }
  return origin + std::log(total);
}

template <typename T>
void log_sum_exp(const LogitRows& rows, const T* logits, Wide<T>* chosen, Wide<T>* log_sums,
                 std::int64_t begin, std::int64_t end) {
  using A = Wide<T>;
  for (std::int64_t r = begin; r < end; ++r) {
    const T* const row = logits + r * rows.count;
    chosen[r] = log_sums[r] = 0;
    if (rows.targets[r] == rows.ignored) continue;
    if (rows.count == 0) {
      log_sums[r] = -std::numeric_limits<A>::infinity();
      continue;
    }
    log_sums[r] = log_sum(row, rows.count);
    const std::int64_t target = target_column(rows, r);
    if (among(rows, target)) chosen[r] = static_cast<A>(row[target]);
  }
}

template <typename T, bool kCapped>
void cross_entropy_backward_of(const LogitRows& rows, T* logits, const Wide<T>* log_sums,
                               const RowSeeds<Wide<T>>& seeds, std::int64_t begin,
                               std::int64_t end) {
  using A = Wide<T>;
  const A per_cap = kCapped ? static_cast<A>(1 / rows.cap) : A(0);
  const Vector<T> exponent = fill<T>(kExponent<T>);
  for (std::int64_t r = begin; r < end; ++r) {
    T* const row = logits + r * rows.count;
    if (rows.targets[r] == rows.ignored) {
      std::fill(row, row + rows.count, T(0));
      continue;
    }
    const A factor = seeds.at(r);
    const std::int64_t target = target_column(rows, r);
    const bool mine = among(rows, target);
    const A logit = mine ? static_cast<A>(row[target]) : A(0);
    const A bent = kCapped ? A(1) - logit * per_cap * (logit * per_cap) : A(1);
    const A own = mine ? (std::exp(logit - log_sums[r]) - A(1)) * bent : A(0);
    const Vector<T> below = fill<T>(-kExponent<T> * log_sums[r]);
    over<T>(rows.count, [&](auto at) {
      const Vector<T> x = at.load(row);
      const Vector<T> p = power<T>(hn::MulAdd(exponent, x, below));
      const Vector<T> dx = hn::Mul(fill<T>(factor), p);
      if constexpr (kCapped)
        at.store(row, hn::Mul(dx, cap_slope<T>(x, per_cap)));
      else
        at.store(row, dx);
    });
    if (mine) row[target] = static_cast<T>(factor * own);
  }
}

template <typename T>
void cross_entropy_backward(const LogitRows& rows, T* logits, const Wide<T>* log_sums,
                            const RowSeeds<Wide<T>>& seeds, std::int64_t begin, std::int64_t end) {
  const auto run =
      rows.cap > 0 ? cross_entropy_backward_of<T, true> : cross_entropy_backward_of<T, false>;
  run(rows, logits, log_sums, seeds, begin, end);
}

template <typename T>
ScoreKernels<T> make() {
  return {.cap_scores = cap_scores<T>,
          .cap_logits = cap_logits<T>,
          .softmax = softmax<T>,
          .softmax_backward = softmax_backward<T>,
          .log_sum_exp = log_sum_exp<T>,
          .cross_entropy_backward = cross_entropy_backward<T>};
}
TRIREME_KERNELS_OF_TARGET(ScoreKernels, score_kernels)

}  // namespace trireme::ops::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::kernels {
TRIREME_KERNELS(ScoreKernels, score_kernels)
}  // namespace trireme::ops::kernels
#endif
