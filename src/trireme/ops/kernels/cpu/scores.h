// What attention and cross-entropy do to rows of scores on the CPU.
#pragma once

#include <cstdint>

#include "trireme/ops/kernels/cpu/pointwise.h"

namespace trireme::ops::kernels {

// Where a block of score rows lies in the whole [heads, tokens, tokens]: rows first_row ..
// first_row + rows - 1 of every head, columns 0 .. columns - 1. Row r sees columns up to r.
struct ScoreBlock {
  std::int64_t heads = 0;  // of all samples
  std::int64_t tokens = 0;
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  bool drop = false;  // noise on probabilities
  Keep keep{};
  double keep_scale = 1;  // 1 / (1 - p)
};

// scores [heads, rows, columns] become probabilities (with noise); log-sum-exps go to [heads, tokens].
// Heads [begin, end).
template <typename A>
void causal_softmax(const ScoreBlock& block, A* scores, A* log_sums, std::int64_t begin,
                    std::int64_t end);

// scores become probabilities again (with noise), dprobs the gradient of scores:
// p * (dp - delta), delta = sum over columns of p dp.
template <typename A>
void causal_softmax_backward(const ScoreBlock& block, A* scores, A* dprobs, const A* log_sums,
                             const A* delta, std::int64_t begin, std::int64_t end);

// A head's rows between the activations' [samples, tokens, stride] and [heads, rows, width].
template <typename T>
struct HeadRows {
  T* rows = nullptr;  // first head's first column of token 0
  std::int64_t tokens = 0;
  std::int64_t stride = 0;  // elements of a token's row
  std::int64_t heads = 0;   // of a sample
  std::int64_t width = 0;
};
// out[head, t] = scale * rows of tokens 0 .. tokens-1; heads [begin, end) of all samples.
template <typename T>
void gather_heads(const HeadRows<const T>& from, Wide<T> scale, Wide<T>* out, std::int64_t begin,
                  std::int64_t end);
// The way back for tokens first .. first + count - 1; in: [heads, count, width].
template <typename T>
void scatter_heads(const Wide<T>* in, Wide<T> scale, const HeadRows<T>& to, std::int64_t first,
                   std::int64_t count, std::int64_t begin, std::int64_t end);
// out[head, t] = sum over a head's width of a * b.
template <typename T>
void dot_heads(const HeadRows<const T>& a, const HeadRows<const T>& b, Wide<T>* out,
               std::int64_t begin, std::int64_t end);

// losses[r] = log-sum-exp of the row minus its target's logit; 0 where the target is `ignored`. With
// `gradient` the logits become softmax - onehot, rows without target 0.
template <typename T>
void cross_entropy(T* logits, const std::int64_t* targets, std::int64_t ignored,
                   std::int64_t classes, bool gradient, Wide<T>* losses, std::int64_t begin,
                   std::int64_t end);

}  // namespace trireme::ops::kernels
