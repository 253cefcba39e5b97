#include "trireme/model/account/transients.h"

#include "trireme/config/families.h"
#include "trireme/model/account/attention_tape.h"
#include "trireme/model/account/layer_tape.h"

namespace trireme::model {
namespace {

// Learned positions, biases, and a forward whose variables hold what comes of attention.
bool gpt_like(const config::Model& model) {
  return config::info(model.family).decoder == config::DecoderBlock::kGpt;
}

class Block {
 public:
  Block(const config::Model& model, const Sizes& sizes, const PerRank& rank,
        const TrainedBlock& trained)
      : layers_(model, sizes, rank, gpt_like(model)),
        trained_(trained),
        attention_(model, sizes, rank),
        made_(layers_.biased ? 0 : sizes.tokens * (sizes.q + sizes.kv) * sizes.element),
        feature_(sizes.tokens * sizes.ffn * sizes.element),
        width_(layers_.biased ? sizes.q + 2 * sizes.kv : sizes.q),
        ffn_(sizes.ffn) {}

  plan::NodeWork work() const {
    Tape keeping, passing;
    forward(keeping, true);
    forward(passing, false);
    Tape whole, input;
    backward(whole, Half::kWhole);
    backward(input, Half::kInput);
    // And gradients of output and input.
    const std::int64_t counted = kept() + (1 + trained_.gradients.input) * layers_.row;
    const bool gathers = trained_.trains(trained_.qkv) || trained_.trains(trained_.up);
    return {.forward = keeping.most() - kept() - layers_.row,
            .passing = passing.most() - layers_.row,
            .backward = whole.most() - counted,
            .input = input.most() - counted,
            .weight = (gathers ? layers_.gathered : 0) + layers_.sizes.added_product +
                      layers_.sums(layers_.sizes.tokens, std::max(width_, ffn_))};
  }

 private:
  // Of attention's, what the forward's variables hold to its end: gpt's hold what comes of it instead.
  std::int64_t lasting() const { return layers_.biased ? 0 : attention_.result(); }
  int inner() const { return layers_.biased ? 1 : 2; }  // tensors that the feed-forward keeps
  std::int64_t normed(const LinearLayers& by) const { return trained_.trains(by) * layers_.row; }
  std::int64_t kept() const {
    const std::int64_t attended = layers_.row + layers_.statistics + attention_.kept();
    return normed(trained_.qkv) + trained_.normed() * layers_.statistics +
           trained_.attended() * attended + normed(trained_.up) + inner() * feature_ + adapters();
  }
  std::int64_t adapters() const {
    std::int64_t ranks = 0;
    for (const LinearLayers* layers : {&trained_.qkv, &trained_.out, &trained_.up, &trained_.down})
      ranks += layers->inner;
    return ranks * layers_.sizes.tokens * layers_.sizes.element;
  }
  // What is dropped of `read` for adapters, and once more on the way back.
  void drop(Tape& tape, const LinearLayers& by, std::int64_t read, int copies = 1) const {
    if (trained_.dropout && by.adapted()) tape.pass(copies * read);
  }

  void forward(Tape& tape, bool keeps) const {
    const std::int64_t norm_passed = keeps && trained_.normed() ? 0 : 1;
    const std::int64_t passed = keeps && trained_.attended() ? 0 : 1;
    tape.take(layers_.row + layers_.statistics + (keeps ? adapters() : 0));
    tape.give(norm_passed * layers_.statistics);
    layers_.column_forward(tape, attention_.input());
    drop(tape, trained_.qkv, layers_.partial);
    tape.take(made_);
    attention_.forward(tape);
    drop(tape, trained_.out, attention_.result());
    layers_.row_forward(tape);
    tape.give(passed * (attention_.made() - lasting() + made_));
    Held dropped(tape, layers_.dropped);
    tape.take(2 * layers_.row + layers_.statistics);
    dropped.give();
    tape.give(passed * layers_.statistics);
    if (!layers_.biased) tape.give(layers_.row);
    layers_.column_forward(tape, inner() * feature_);
    drop(tape, trained_.up, layers_.partial);
    tape.pass((1 + trained_.gates) * feature_);
    Held activation(tape, feature_);
    drop(tape, trained_.down, feature_);
    layers_.row_forward(tape);
    activation.give();
    tape.take(layers_.dropped + layers_.row);
  }

  void backward(Tape& tape, Half half) const {
    // What a layer's weights need stays for their half.
    const auto gone = [&](const LinearLayers& of) {
      return half == Half::kWhole || !trained_.trains(of);
    };
    tape.take(kept() + layers_.row);
    Held dropped(tape, layers_.dropped);
    layers_.row_backward(tape, feature_, layers_.biased);
    drop(tape, trained_.down, feature_, 2);
    // The activation again and, of gate and up, another gradient.
    Held again(tape, inner() * feature_);
    if (trained_.trains(trained_.down)) tape.pass(layers_.sizes.added_product);
    drop(tape, trained_.down, feature_);
    if (gone(trained_.down)) tape.give(feature_ + layers_.gathered);
    dropped.give();
    again.give();
    layers_.column_backward(tape, layers_.biased ? ffn_ : 0, inner(), half,
                            trained_.trains(trained_.up), trained_.attended());
    drop(tape, trained_.up, layers_.partial, 2);
    if (gone(trained_.up)) tape.give(normed(trained_.up) + inner() * feature_);
    if (trained_.attended()) attention_backward(tape, half, gone(trained_.out), gone(trained_.qkv));
  }

  void attention_backward(Tape& tape, Half half, bool out_gone, bool qkv_gone) const {
    layers_.norm_backward(tape);
    tape.give(layers_.row);
    Held dropped(tape, layers_.dropped);
    layers_.row_backward(tape, attention_.result(), layers_.biased);
    drop(tape, trained_.out, attention_.result(), 2);
    if (out_gone) tape.give(layers_.gathered);
    dropped.give();
    attention_.backward(tape);
    tape.pass(made_);
    layers_.column_backward(tape, layers_.biased ? width_ : 0, layers_.biased ? 1 : 3, half,
                            trained_.trains(trained_.qkv), trained_.normed());
    drop(tape, trained_.qkv, layers_.partial, 2);
    if (qkv_gone) tape.give(normed(trained_.qkv) + attention_.input());
    if (trained_.normed()) layers_.norm_backward(tape);
  }

  LayerTape layers_;
  const TrainedBlock& trained_;
  AttentionTape attention_;
  std::int64_t made_;     // queries and keys once more, turned
  std::int64_t feature_;  // one of the feed-forward's inner tensors
  std::int64_t width_, ffn_;
};

}  // namespace

plan::NodeWork embed_transients(const config::Model& model, const Sizes& sizes, const PerRank& rank,
                                bool scaled) {
  const bool gpt = gpt_like(model);
  const LayerTape layers(model, sizes, rank, gpt);
  const bool places = sizes.spread || rank.documents;
  Tape forward, backward;
  forward.take(layers.partial);
  layers.sum(forward);
  if (gpt) {
    // Rows of the table of positions, and the sum.
    forward.take((places ? layers.row : 0) + layers.row);
    forward.take(layers.dropped);
  }
  forward.take(scaled * layers.row);
  backward.take((1 + scaled) * layers.row + layers.dropped + layers.gathered);
  // Positions' gradient is summed over samples, laid out as the table's and, of another type, converted.
  const std::int64_t positions = model.seq_len * sizes.d;
  if (gpt && !places) {
    const bool converts = sizes.element != sizes.statistic;
    backward.take(positions * (sizes.element + (converts ? sizes.statistic : sizes.element)));
  }
  return {.forward = forward.most() - layers.row,
          .passing = forward.most() - layers.row,
          .backward = backward.most() - layers.row,
          .input = backward.most() - layers.row};
}

plan::NodeWork block_transients(const config::Model& model, const Sizes& sizes, const PerRank& rank,
                                const TrainedBlock& trained) {
  return Block(model, sizes, rank, trained).work();
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
