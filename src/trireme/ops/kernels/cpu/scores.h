// What attention and cross-entropy do to rows of scores on the CPU.
#pragma once

#include "trireme/ops/kernels/cpu/types.h"

namespace trireme::ops::kernels {

// A block of score rows of one head, each `stride` elements from the next, which leaves room for whole vectors
// behind `columns`: rows first_row .. first_row +
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

// Rows of logits of classes first .. first + count - 1, one after the other, and the target of each row; rows
// whose target is `ignored` have no loss.
struct LogitRows {
  const std::int64_t* targets = nullptr;
  std::int64_t ignored = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

template <typename T>
struct ScoreKernels {
  // probs * shares[row] = softmax(scale * scores) with noise; probs are 0 where a row does not see.
  // log_sums[row]: log-sum-exp of the scaled scores.
  void (*softmax)(const ScoreBlock& block, const Wide<T>* scores, T* probs, Wide<T>* shares,
                  Wide<T>* log_sums);
  // From scores and the gradient of probabilities: the probabilities again, with noise, and the gradient
  // of scores, p * (dp - delta) * scale where delta[row] is the row's sum of p dp.
  void (*softmax_backward)(const ScoreBlock& block, const Wide<T>* scores, const Wide<T>* dprobs,
                           const Wide<T>* log_sums, const Wide<T>* delta, T* probs, T* dscores);
  // Of rows [begin, end): log_sums[r], the log-sum-exp over these classes, and chosen[r], the target's logit
  // or 0 where it is not among them. Both are 0 for ignored rows.
  void (*log_sum_exp)(const LogitRows& rows, const T* logits, Wide<T>* chosen, Wide<T>* log_sums,
                      std::int64_t begin, std::int64_t end);
  // logits become seed * (softmax - onehot), 0 in ignored rows; log_sums are over all classes there are.
  void (*cross_entropy_backward)(const LogitRows& rows, T* logits, const Wide<T>* log_sums,
                                 double seed, std::int64_t begin, std::int64_t end);
};

template <typename T>
const ScoreKernels<T>& score_kernels();

}  // namespace trireme::ops::kernels
