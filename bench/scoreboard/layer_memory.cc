#include "bench/scoreboard/layer_memory.h"

#include <algorithm>

namespace trireme::scoreboard {
namespace {

constexpr double kActivation = 2;  // bytes of an activation

// Norms, their inputs and outputs, and masks of dropout: what tensor parallelism leaves whole (Korthikanti et al. 2022,
// arXiv 2205.05198, section 4.1).
double outside(const Decoder& model, const MemoryPractice& practice) {
  return (4 * kActivation + (practice.dropout ? 2 : 0)) * model.hidden;
}

// The operands of products and activations that tp cuts.
double inside(const Decoder& model) {
  const double ffn = (model.gated ? 4 : 2) * kActivation * model.ffn_width();
  return 2 * kActivation * model.hidden + 2 * kActivation * model.kv_width() + ffn;
}

// Probabilities of unfused attention; with dropout its mask and output as well.
double probabilities(const Decoder& model, const Split& split, const MemoryPractice& practice) {
  const double keys = split.sequence;
  return practice.flash
             ? 0
             : (kActivation + (practice.dropout ? 1 + kActivation : 0)) * model.heads * keys;
}

double whole_width(const Decoder& model, const Split& split) {
  return model.hidden / (split.sequence_parallel ? split.tp : 1);
}

double all(const Decoder& model, const Split& split, const MemoryPractice& practice) {
  return outside(model, practice) / (split.sequence_parallel ? split.tp : 1) +
         (inside(model) + probabilities(model, split, practice)) / split.tp;
}

// Attention's output, the products of q, v and the first of the feed-forward part; also of its last where nothing drops
// what backward does not read (torchtitan's selective checkpoints).
double operators(const Decoder& model, const Split& split, const MemoryPractice& practice) {
  const double cut = 2 * model.hidden + model.kv_width() + model.ffn_width();
  return kActivation * (cut / split.tp + (practice.fused ? 1 : 2) * whole_width(model, split));
}

double kept(const Decoder& model, const Split& split, const MemoryPractice& practice) {
  const double input = practice.inputs_on_host ? 0 : kActivation * whole_width(model, split);
  switch (practice.keeps) {
    case Keeps::kAll: return all(model, split, practice);
    case Keeps::kOperators: return operators(model, split, practice);
    case Keeps::kAlternate: return (all(model, split, practice) + input) / 2;
    case Keeps::kInputs: return input;
  }
  return 0;
}

// Of sequence parallelism: what both norms hand over, gathered, and a sum before it is scattered.
double gathered(const Decoder& model, const Split& split) {
  return split.sequence_parallel && split.tp > 1 ? 3 * kActivation * model.hidden : 0;
}

double gradients(const Decoder& model, const Split& split, const MemoryPractice& practice) {
  const double partial = kActivation * (split.sequence_parallel ? 1 : 0.5) * model.hidden;
  const double ffn = (model.gated ? 3 : 2) * kActivation * model.ffn_width() / split.tp +
                     (model.gated ? 2 : 1) * partial;
  const double attention = (2 * kActivation * (model.hidden + model.kv_width()) +
                            (practice.flash ? 0 : 2 * kActivation * model.heads * split.sequence)) /
                               split.tp +
                           (model.gated ? 3 : 1) * partial;
  // Keys and values of all of cp, gathered and as gradients, for every head of queries.
  const double context = split.cp > 1 ? 4 * kActivation * model.hidden * split.cp / split.tp : 0;
  // When backward comes to attention, the feed-forward part's activations are gone.
  const double freed = (model.gated ? 4 : 2) * kActivation * model.ffn_width() / split.tp;
  return std::max(ffn, attention + context - freed);
}

}  // namespace

LayerBytes layer_bytes(const Decoder& model, const Split& split, const MemoryPractice& practice) {
  LayerBytes bytes;
  bytes.kept = kept(model, split, practice);
  const double input =
      practice.keeps == Keeps::kInputs ? kActivation * whole_width(model, split) : 0;
  const double recomputed = practice.keeps == Keeps::kAll         ? 0
                            : practice.keeps == Keeps::kOperators ? bytes.kept
                                                                  : input;
  if (practice.keeps != Keeps::kAll) bytes.working = all(model, split, practice) - recomputed;
  bytes.working += gathered(model, split);
  // Norms in fp32, an operation at a time.
  if (!practice.fused) bytes.working += 12 * whole_width(model, split);
  bytes.gradients = gradients(model, split, practice);
  return bytes;
}

}  // namespace trireme::scoreboard
