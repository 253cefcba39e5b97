#include "trireme/ops/kernels/cpu/scores.h"

#include <cmath>

namespace trireme::ops::kernels {

template <typename T>
TRIREME_SIMD_CLONES void causal_softmax(const ScoreBlock& block, Wide<T>* scores, T* probs,
                                        Wide<T>* log_sums) {
  using A = Wide<T>;
  const A scale = static_cast<A>(block.scale);
  for (std::int64_t r = 0; r < block.rows; ++r) {
    A* const row = scores + r * block.stride;
    T* const out = probs + r * block.stride;
    const std::int64_t seen = block.first_row + r + 1;
    const A largest = row_max(row, seen);
    const A sum = lane_sum<A>(
        seen, [&](std::int64_t i) { return row[i] = exponential(scale * (row[i] - largest)); });
    log_sums[r] = scale * largest + std::log(sum);
    const A share = A(1) / sum;
    if (block.drop) {
      const std::uint32_t key = block.keep.row(static_cast<std::uint64_t>(block.place + r));
      const A factor = share * static_cast<A>(block.keep_scale);
      for (std::int64_t i = 0; i < seen; ++i)
        store(out + i, block.keep(key, static_cast<std::uint32_t>(i)) ? row[i] * factor : A(0));
    } else {
      for (std::int64_t i = 0; i < seen; ++i) store(out + i, row[i] * share);
    }
    for (std::int64_t i = seen; i < block.columns; ++i) store(out + i, A(0));
  }
}

template <typename T>
TRIREME_SIMD_CLONES void causal_softmax_backward(const ScoreBlock& block, const Wide<T>* scores,
                                                 const Wide<T>* dprobs, const Wide<T>* log_sums,
                                                 const Wide<T>* delta, T* probs, T* dscores) {
  using A = Wide<T>;
  const A scale = static_cast<A>(block.scale);
  for (std::int64_t r = 0; r < block.rows; ++r) {
    const A* const row = scores + r * block.stride;
    const A* const drow = dprobs + r * block.stride;
    T* const p_out = probs + r * block.stride;
    T* const d_out = dscores + r * block.stride;
    const std::int64_t seen = block.first_row + r + 1;
    const A log_sum = log_sums[r];
    const A share = delta[r];
    if (block.drop) {
      const std::uint32_t key = block.keep.row(static_cast<std::uint64_t>(block.place + r));
      const A factor = static_cast<A>(block.keep_scale);
      for (std::int64_t i = 0; i < seen; ++i) {
        const A kept = block.keep(key, static_cast<std::uint32_t>(i)) ? factor : A(0);
        const A p = exponential(scale * row[i] - log_sum);
        store(d_out + i, p * (drow[i] * kept - share) * scale);
        store(p_out + i, p * kept);
      }
    } else {
      for (std::int64_t i = 0; i < seen; ++i) {
        const A p = exponential(scale * row[i] - log_sum);
        store(d_out + i, p * (drow[i] - share) * scale);
        store(p_out + i, p);
      }
    }
    for (std::int64_t i = seen; i < block.columns; ++i) {
      store(d_out + i, A(0));
      store(p_out + i, A(0));
    }
  }
}

template <typename T>
TRIREME_SIMD_CLONES void dot_rows(const T* a, std::int64_t a_stride, const T* b,
                                  std::int64_t b_stride, std::int64_t rows, std::int64_t width,
                                  Wide<T>* out) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* const x = a + r * a_stride;
    const T* const y = b + r * b_stride;
    out[r] = lane_sum<Wide<T>>(width, [&](std::int64_t i) { return widen(x[i]) * widen(y[i]); });
  }
}

template <typename T>
TRIREME_SIMD_CLONES void store_rows(const Wide<T>* from, std::int64_t rows, std::int64_t width,
                                    T* to, std::int64_t stride) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < width; ++i) store(to + r * stride + i, from[r * width + i]);
}

template <typename T>
TRIREME_SIMD_CLONES void cross_entropy(const T* logits, const std::int64_t* targets,
                                       std::int64_t ignored, std::int64_t classes, Wide<T>* losses,
                                       Wide<T>* log_sums, std::int64_t begin, std::int64_t end) {
  using A = Wide<T>;
  for (std::int64_t r = begin; r < end; ++r) {
    const T* const row = logits + r * classes;
    losses[r] = log_sums[r] = 0;
    if (targets[r] == ignored) continue;
    const A largest = row_max(row, classes);
    const A sum =
        lane_sum<A>(classes, [&](std::int64_t i) { return exponential(widen(row[i]) - largest); });
    log_sums[r] = largest + std::log(sum);
    losses[r] = log_sums[r] - widen(row[targets[r]]);
  }
}

template <typename T>
TRIREME_SIMD_CLONES void cross_entropy_backward(T* logits, const std::int64_t* targets,
                                                std::int64_t ignored, std::int64_t classes,
                                                const Wide<T>* log_sums, double seed,
                                                std::int64_t begin, std::int64_t end) {
  using A = Wide<T>;
  const A factor = static_cast<A>(seed);
  for (std::int64_t r = begin; r < end; ++r) {
    T* const row = logits + r * classes;
    if (targets[r] == ignored) {
      for (std::int64_t i = 0; i < classes; ++i) store(row + i, A(0));
      continue;
    }
    const A log_sum = log_sums[r];
    const A target = exponential(widen(row[targets[r]]) - log_sum) - A(1);
    for (std::int64_t i = 0; i < classes; ++i)
      store(row + i, factor * exponential(widen(row[i]) - log_sum));
    store(row + targets[r], factor * target);
  }
}

#define TRIREME_INSTANTIATE(T)                                                                 \
  template void causal_softmax<T>(const ScoreBlock&, Wide<T>*, T*, Wide<T>*);                  \
  template void causal_softmax_backward<T>(const ScoreBlock&, const Wide<T>*, const Wide<T>*,  \
                                           const Wide<T>*, const Wide<T>*, T*, T*);            \
  template void dot_rows<T>(const T*, std::int64_t, const T*, std::int64_t, std::int64_t,      \
                            std::int64_t, Wide<T>*);                                           \
  template void store_rows<T>(const Wide<T>*, std::int64_t, std::int64_t, T*, std::int64_t);   \
  template void cross_entropy<T>(const T*, const std::int64_t*, std::int64_t, std::int64_t,    \
                                 Wide<T>*, Wide<T>*, std::int64_t, std::int64_t);              \
  template void cross_entropy_backward<T>(T*, const std::int64_t*, std::int64_t, std::int64_t, \
                                          const Wide<T>*, double, std::int64_t, std::int64_t);
TRIREME_INSTANTIATE(double)
TRIREME_INSTANTIATE(float)
TRIREME_INSTANTIATE(c10::BFloat16)
#undef TRIREME_INSTANTIATE

}  // namespace trireme::ops::kernels
