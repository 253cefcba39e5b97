#include "trireme/model/account/transients.h"

#include "trireme/model/account/layer_tape.h"

namespace trireme::model {

plan::NodeWork embed_transients(const config::Model& model, const Sizes& sizes, const PerRank& rank,
                                bool has_positions, bool scaled) {
  const LayerTape layers(model, sizes, rank, has_positions);
  const bool places = sizes.spread || rank.documents;
  Tape forward, backward;
  forward.take(layers.partial);
  layers.sum(forward);
  if (has_positions) {
    // Rows of the table of positions, and the sum.
    forward.take((places ? layers.row : 0) + layers.row);
    forward.take(layers.dropped);
  }
  forward.take(scaled * layers.row);
  backward.take((1 + scaled) * layers.row + layers.dropped + layers.gathered);
  // Positions' gradient is summed over samples, laid out as the table's and, of another type, converted.
  const std::int64_t positions = model.seq_len * sizes.d;
  if (has_positions && !places) {
    const bool converts = sizes.element != sizes.statistic;
    backward.take(positions * (sizes.element + (converts ? sizes.statistic : sizes.element)));
  }
  return {.forward = forward.most() - layers.row,
          .passing = forward.most() - layers.row,
          .backward = backward.most() - layers.row,
          .input = backward.most() - layers.row};
}

// With kept logits; recomputed ones are a part of the node. The input's gradient is summed over segments of the
// vocabulary, in the type of sums.
plan::NodeWork head_transients(const config::Model& model, const Sizes& sizes, const PerRank& rank,
                               const TrainedHead& trained) {
  const LayerTape layers(model, sizes, rank, trained.statistics > 1);
  const std::int64_t log_sums = sizes.tokens * sizes.statistic;
  const std::int64_t logits = sizes.tokens * sizes.vocab * sizes.element;
  const std::int64_t normed = trained.weight * layers.row;
  const std::int64_t added = sizes.tokens * sizes.d * sizes.statistic;
  const std::int64_t kept = normed + trained.normed() * layers.statistics + logits + log_sums;

  Tape forward;
  forward.take(layers.row + layers.statistics + layers.gathered + logits);
  forward.take(2 * log_sums);
  forward.pass(2 * log_sums);                                     // of a segment
  if (!layers.alone) forward.take((4 + 2 * rank.tp) * log_sums);  // of all tp ranks

  const auto backward = [&](Half half) {
    const bool whole = half == Half::kWhole || !trained.weight;
    const std::int64_t gathered = whole && trained.weight ? layers.gathered : 0;
    Tape tape;
    tape.take(kept + gathered + trained.normed() * added);
    tape.pass(sizes.added_product);
    if (trained.normed() && added != layers.partial) {
      tape.take(layers.partial);
      tape.give(added);
    }
    if (trained.normed()) layers.sum(tape);
    if (whole) tape.give(gathered + logits + log_sums + normed);
    if (trained.normed()) layers.norm_backward(tape);
    return tape.most() - kept - trained.gradients.input * layers.row;
  };
  return {.forward = forward.most() - kept,
          .passing = forward.most(),
          .backward = backward(Half::kWhole),
          .input = backward(Half::kInput),
          .weight = trained.weight * (layers.gathered + sizes.added_product)};
}

}  // namespace trireme::model
