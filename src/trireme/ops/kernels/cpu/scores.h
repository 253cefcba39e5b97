// What attention and cross-entropy do to rows of scores on the CPU.
#pragma once

#include <cstdint>

#include "trireme/ops/kernels/cpu/pointwise.h"

namespace trireme::ops::kernels {

// A block of score rows of one head, each `stride` elements from the next: rows first_row .. first_row +
// rows - 1 of the head's tokens, columns 0 .. columns - 1. Row r sees columns up to r.
struct ScoreBlock {
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;
  double scale = 1;        // of scores, above 0
  std::int64_t place = 0;  // of the first row among those of all heads: what noise is keyed by
  bool drop = false;       // noise on probabilities
  Keep keep{};
  double keep_scale = 1;  // 1 / (1 - p)
};

// probs = softmax(scale * scores) with noise, 0 where a row does not see; overwrites scores.
// log_sums[row]: log-sum-exp of the scaled scores.
template <typename T>
void causal_softmax(const ScoreBlock& block, Wide<T>* scores, T* probs, Wide<T>* log_sums);

// From scores and the gradient of probabilities: the probabilities again, with noise, and the gradient of
// scores, p * (dp - delta) * scale where delta[row] is the row's sum of p dp.
template <typename T>
void causal_softmax_backward(const ScoreBlock& block, const Wide<T>* scores, const Wide<T>* dprobs,
                             const Wide<T>* log_sums, const Wide<T>* delta, T* probs, T* dscores);

// out[r] = sum over i < width of a[r * a_stride + i] * b[r * b_stride + i].
template <typename T>
void dot_rows(const T* a, std::int64_t a_stride, const T* b, std::int64_t b_stride,
              std::int64_t rows, std::int64_t width, Wide<T>* out);
// to[r * stride + i] = from[r * width + i], rounded.
template <typename T>
void store_rows(const Wide<T>* from, std::int64_t rows, std::int64_t width, T* to,
                std::int64_t stride);

// losses[r] = log-sum-exp of the row minus its target's logit; 0 where the target is `ignored`. Rows
// [begin, end); log_sums[r] is the row's log-sum-exp.
template <typename T>
void cross_entropy(const T* logits, const std::int64_t* targets, std::int64_t ignored,
                   std::int64_t classes, Wide<T>* losses, Wide<T>* log_sums, std::int64_t begin,
                   std::int64_t end);

// logits become the gradient of seed * sum of losses: seed * (softmax - onehot), rows without target 0.
template <typename T>
void cross_entropy_backward(T* logits, const std::int64_t* targets, std::int64_t ignored,
                            std::int64_t classes, const Wide<T>* log_sums, double seed,
                            std::int64_t begin, std::int64_t end);

}  // namespace trireme::ops::kernels
