#include "trireme/ops/kernels/cpu/scores.h"

#include <cmath>

namespace trireme::ops::kernels {

template <typename A>
TRIREME_SIMD_CLONES void causal_softmax(const ScoreBlock& block, A* scores, A* log_sums,
                                        std::int64_t begin, std::int64_t end) {
  for (std::int64_t head = begin; head < end; ++head)
    for (std::int64_t r = 0; r < block.rows; ++r) {
      const std::int64_t place = head * block.tokens + block.first_row + r;
      A* const row = scores + (head * block.rows + r) * block.columns;
      const std::int64_t seen = block.first_row + r + 1;
      const A largest = row_max(row, seen);
      for (std::int64_t i = 0; i < seen; ++i) row[i] = exponential(row[i] - largest);
      const A sum = lane_sum<A>(seen, [&](std::int64_t i) { return row[i]; });
      const A scale = A(1) / sum;
      for (std::int64_t i = 0; i < seen; ++i) row[i] *= scale;
      for (std::int64_t i = seen; i < block.columns; ++i) row[i] = 0;
      log_sums[place] = largest + std::log(sum);
      if (!block.drop) continue;
      const std::uint32_t key = block.keep.row(static_cast<std::uint64_t>(place));
      const A factor = static_cast<A>(block.keep_scale);
      for (std::int64_t i = 0; i < seen; ++i)
        row[i] *= block.keep(key, static_cast<std::uint32_t>(i)) ? factor : A(0);
    }
}

template <typename A>
TRIREME_SIMD_CLONES void causal_softmax_backward(const ScoreBlock& block, A* scores, A* dprobs,
                                                 const A* log_sums, const A* delta,
                                                 std::int64_t begin, std::int64_t end) {
  for (std::int64_t head = begin; head < end; ++head)
    for (std::int64_t r = 0; r < block.rows; ++r) {
      const std::int64_t place = head * block.tokens + block.first_row + r;
      A* const row = scores + (head * block.rows + r) * block.columns;
      A* const drow = dprobs + (head * block.rows + r) * block.columns;
      const std::int64_t seen = block.first_row + r + 1;
      const A log_sum = log_sums[place];
      const A share = delta[place];
      if (block.drop) {
        const std::uint32_t key = block.keep.row(static_cast<std::uint64_t>(place));
        const A factor = static_cast<A>(block.keep_scale);
        for (std::int64_t i = 0; i < seen; ++i) {
          const A kept = block.keep(key, static_cast<std::uint32_t>(i)) ? factor : A(0);
          const A p = exponential(row[i] - log_sum);
          drow[i] = p * (drow[i] * kept - share);
          row[i] = p * kept;
        }
      } else {
        for (std::int64_t i = 0; i < seen; ++i) {
          const A p = exponential(row[i] - log_sum);
          drow[i] = p * (drow[i] - share);
          row[i] = p;
        }
      }
      for (std::int64_t i = seen; i < block.columns; ++i) row[i] = drow[i] = 0;
    }
}

template <typename T>
TRIREME_SIMD_CLONES void gather_heads(const HeadRows<const T>& from, Wide<T> scale, Wide<T>* out,
                                      std::int64_t begin, std::int64_t end) {
  const std::int64_t width = from.width;
  for (std::int64_t head = begin; head < end; ++head)
    for (std::int64_t t = 0; t < from.tokens; ++t) {
      const T* const row = from.rows + (head / from.heads * from.tokens + t) * from.stride +
                           head % from.heads * width;
      Wide<T>* const to = out + (head * from.tokens + t) * width;
      for (std::int64_t i = 0; i < width; ++i) to[i] = widen(row[i]) * scale;
    }
}

template <typename T>
TRIREME_SIMD_CLONES void scatter_heads(const Wide<T>* in, Wide<T> scale, const HeadRows<T>& to,
                                       std::int64_t first, std::int64_t count, std::int64_t begin,
                                       std::int64_t end) {
  const std::int64_t width = to.width;
  for (std::int64_t head = begin; head < end; ++head)
    for (std::int64_t t = 0; t < count; ++t) {
      const Wide<T>* const row = in + (head * count + t) * width;
      T* const out =
          to.rows + (head / to.heads * to.tokens + first + t) * to.stride + head % to.heads * width;
      for (std::int64_t i = 0; i < width; ++i) store(out + i, row[i] * scale);
    }
}

template <typename T>
TRIREME_SIMD_CLONES void dot_heads(const HeadRows<const T>& a, const HeadRows<const T>& b,
                                   Wide<T>* out, std::int64_t begin, std::int64_t end) {
  for (std::int64_t head = begin; head < end; ++head)
    for (std::int64_t t = 0; t < a.tokens; ++t) {
      const std::int64_t token = head / a.heads * a.tokens + t;
      const std::int64_t column = head % a.heads * a.width;
      const T* const x = a.rows + token * a.stride + column;
      const T* const y = b.rows + token * b.stride + column;
      out[head * a.tokens + t] =
          lane_sum<Wide<T>>(a.width, [&](std::int64_t i) { return widen(x[i]) * widen(y[i]); });
    }
}

template <typename T>
TRIREME_SIMD_CLONES void cross_entropy(T* logits, const std::int64_t* targets, std::int64_t ignored,
                                       std::int64_t classes, bool gradient, Wide<T>* losses,
                                       std::int64_t begin, std::int64_t end) {
  using A = Wide<T>;
  for (std::int64_t r = begin; r < end; ++r) {
    T* const row = logits + r * classes;
    if (targets[r] == ignored) {
      losses[r] = 0;
      if (gradient)
        for (std::int64_t i = 0; i < classes; ++i) store(row + i, A(0));
      continue;
    }
    const A largest = row_max(row, classes);
    const A sum =
        lane_sum<A>(classes, [&](std::int64_t i) { return exponential(widen(row[i]) - largest); });
    const A log_sum = largest + std::log(sum);
    losses[r] = log_sum - widen(row[targets[r]]);
    if (!gradient) continue;
    const A target = exponential(widen(row[targets[r]]) - log_sum) - A(1);
    for (std::int64_t i = 0; i < classes; ++i) store(row + i, exponential(widen(row[i]) - log_sum));
    store(row + targets[r], target);
  }
}

#define TRIREME_INSTANTIATE(T)                                                              \
  template void gather_heads<T>(const HeadRows<const T>&, Wide<T>, Wide<T>*, std::int64_t,  \
                                std::int64_t);                                              \
  template void scatter_heads<T>(const Wide<T>*, Wide<T>, const HeadRows<T>&, std::int64_t, \
                                 std::int64_t, std::int64_t, std::int64_t);                 \
  template void dot_heads<T>(const HeadRows<const T>&, const HeadRows<const T>&, Wide<T>*,  \
                             std::int64_t, std::int64_t);                                   \
  template void cross_entropy<T>(T*, const std::int64_t*, std::int64_t, std::int64_t, bool, \
                                 Wide<T>*, std::int64_t, std::int64_t);
TRIREME_INSTANTIATE(double)
TRIREME_INSTANTIATE(float)
TRIREME_INSTANTIATE(c10::BFloat16)
#undef TRIREME_INSTANTIATE

template void causal_softmax<double>(const ScoreBlock&, double*, double*, std::int64_t,
                                     std::int64_t);
template void causal_softmax<float>(const ScoreBlock&, float*, float*, std::int64_t, std::int64_t);
template void causal_softmax_backward<double>(const ScoreBlock&, double*, double*, const double*,
                                              const double*, std::int64_t, std::int64_t);
template void causal_softmax_backward<float>(const ScoreBlock&, float*, float*, const float*,
                                             const float*, std::int64_t, std::int64_t);

}  // namespace trireme::ops::kernels
