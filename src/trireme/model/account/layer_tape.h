// LayerTape: memory of linear layers and norms while they run.
#pragma once

#include "trireme/model/account/per_rank.h"
#include "trireme/model/account/tape.h"

namespace trireme::model {

// As ops/dispatch.h has them.
inline constexpr std::int64_t kSumRows = 256;

// Whether a backward does all at once, or leaves weights for later.
enum class Half { kWhole, kInput };

// What layers make and drop; sizes in bytes. In backwards, what a layer kept is given back by the caller.
struct LayerTape {
  LayerTape(const config::Model& model, const Sizes& s, const PerRank& rank, bool biased)
      : sizes(s),
        biased(biased),
        shared(rank.tp > 1 && rank.sequence),
        alone(rank.tp == 1),
        row(s.rows * s.d * s.element),
        partial(s.tokens * s.d * s.element),
        gathered(shared ? rank.tp * row : 0),
        statistics((biased ? 2 : 1) * s.rows * s.statistic),
        dropped(model.dropout > 0 ? row : 0) {}

  // Columns added up over rows, a chunk at a time.
  std::int64_t sums(std::int64_t rows, std::int64_t columns) const {
    return (rows + kSumRows - 1) / kSumRows * columns * sizes.statistic;
  }
  // From a product of all rows to its sum over tp ranks, of which a rank keeps its rows.
  void sum(Tape& tape) const {
    if (!shared) return;
    Held padded(tape, gathered == partial ? 0 : gathered);
    Held own(tape, row);
    padded.give();
    tape.give(partial);
    own.keep();
  }
  void column_forward(Tape& tape, std::int64_t output) const {
    Held all_rows(tape, gathered);
    tape.take(output);
    all_rows.give();
  }
  void row_forward(Tape& tape) const {
    tape.take(partial);
    sum(tape);
  }
  // Leaves the input's gradient and, where it is gathered, the output's.
  void row_backward(Tape& tape, std::int64_t input, bool biased) const {
    tape.take(gathered);
    if (biased) tape.pass(sums(sizes.rows, sizes.d));
    tape.take(input);
    tape.pass(sizes.added_product);
  }
  // Backward of `layers` with one input, which have so many biases: leaves its gradient, if that is needed.
  void column_backward(Tape& tape, std::int64_t biases, int layers, Half half, bool trains,
                       bool goes_on) const {
    Held all_rows(tape, half == Half::kWhole && trains ? gathered : 0);
    if (goes_on) tape.take(partial);
    tape.pass(sizes.added_product);
    if (alone && layers > 1 && goes_on) tape.pass(partial);  // each layer's, before it is added
    if (goes_on) sum(tape);
    tape.pass(sums(sizes.tokens, biases));
    all_rows.give();
  }
  // Uses up statistics, adds the input's gradient to the output's.
  void norm_gradient(Tape& tape) const {
    Held scale_sums(tape, sums(sizes.rows, 2 * sizes.d)), gradient(tape, row);
    scale_sums.give();
    tape.give(statistics);
    gradient.keep();
  }
  // The same, and the output's is used up.
  void norm_backward(Tape& tape) const {
    norm_gradient(tape);
    tape.give(row);
  }

  const Sizes& sizes;
  bool biased;  // layers have biases, and norms too
  bool shared;  // tp ranks share rows
  bool alone;
  std::int64_t row;         // an activation between tensor-parallel regions
  std::int64_t partial;     // one of all tokens
  std::int64_t gathered;    // of a gather over tp ranks; 0 without one
  std::int64_t statistics;  // that a norm keeps
  std::int64_t dropped;     // what dropout makes
};

}  // namespace trireme::model
