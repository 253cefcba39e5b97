// Operations of attention and cross-entropy on rows of scores on the CPU.
#pragma once

#include "trireme/ops/kernels/cpu/types.h"
#include "trireme/ops/kernels/score_tiles.h"

namespace trireme::ops::kernels {

// A tile of the scores of one head: `rows` rows, each `stride` elements from the next, with space for whole vectors
// after `columns`.
struct ScoreBlock {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;
  const Interval* seen = nullptr;  // the columns that each row sees
  double scale = 1;                // of scores, above 0
  double cap = 0;                  // of scaled scores; 0: none
  // Key of the noise on probabilities: the index of the first row among those of all heads, and the position of the
  // first column.
  std::int64_t place = 0;
  std::int64_t first_column = 0;
  bool drop = false;
  Keep keep{};
  double keep_scale = 1;  // 1 / (1 - p)

  // Rows first .. first + count - 1, as far as there are.
  ScoreBlock from_row(std::int64_t first, std::int64_t count) const {
    ScoreBlock part = *this;
    part.rows = std::min(count, rows - first);
    part.seen = seen + first;
    part.place = place + first;
    return part;
  }
};

// Rows of logits of classes first .. first + count - 1, one after the other, and the target of each row. Rows whose
// target is `ignored` have no loss.
struct LogitRows {
  const std::int64_t* targets = nullptr;
  std::int64_t ignored = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
  double cap = 0;  // of the logits, which are capped already; 0: none
};

// State of the softmax of a block's rows: `tops` the largest scaled score so far (-inf: none), `sums` the sum of
// e^(score - top).
template <typename A>
struct Running {
  A* tops = nullptr;
  A* sums = nullptr;
};

// Gradients of the losses of rows: one for each, or the same for all (stride 0).
template <typename A>
struct RowSeeds {
  const A* seeds = nullptr;
  std::int64_t stride = 0;
  A at(std::int64_t row) const { return seeds[row * stride]; }
};

template <typename T>
struct ScoreKernels {
  // Scores become those that, scaled, are cap tanh(scale * score / cap), where rows see.
  void (*cap_scores)(const ScoreBlock& block, Wide<T>* scores);
  // Numbers x become cap tanh(x / cap).
  void (*cap_logits)(T* logits, std::int64_t count, double cap);
  // probs = e^(scale * score - top) with noise, 0 where a row does not see and after an odd number of columns. Brings
  // `running` up to date and writes what the rows' earlier results are to be multiplied by (Milakov & Gimelshein 2018).
  void (*softmax)(const ScoreBlock& block, const Wide<T>* scores, T* probs,
                  const Running<Wide<T>>& running, Wide<T>* factors);
  // From scores and the gradient of probabilities: the probabilities, with noise, and the gradient of scores, p * (dp -
  // delta) * scale. Of capped scores the latter is times 1 - (scale * score / cap)^2. log_sums[row] is the log-sum-exp
  // of the row's scaled scores over all columns and delta[row] its sum of p dp.
  void (*softmax_backward)(const ScoreBlock& block, const Wide<T>* scores, const Wide<T>* dprobs,
                           const Wide<T>* log_sums, const Wide<T>* delta, T* probs, T* dscores);
  // For rows [begin, end): log_sums[r], the log-sum-exp over these classes, and chosen[r], the target's logit or 0 if
  // it is not among them. Both are 0 for ignored rows.
  void (*log_sum_exp)(const LogitRows& rows, const T* logits, Wide<T>* chosen, Wide<T>* log_sums,
                      std::int64_t begin, std::int64_t end);
  // Logits become seed * (softmax - onehot), times 1 - (logit / cap)^2 where they are capped, 0 in ignored rows; log_sums
  // are over all classes there are.
  void (*cross_entropy_backward)(const LogitRows& rows, T* logits, const Wide<T>* log_sums,
                                 const RowSeeds<Wide<T>>& seeds, std::int64_t begin,
                                 std::int64_t end);
};

template <typename T>
const ScoreKernels<T>& score_kernels();

}  // namespace trireme::ops::kernels
