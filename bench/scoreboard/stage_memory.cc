#include "bench/scoreboard/stage_memory.h"

#include <algorithm>
#include <cmath>

#include "bench/scoreboard/layer_memory.h"

namespace trireme::scoreboard {
namespace {

constexpr double kHalf = 2, kSingle = 4;  // bytes

// What one stage computes, on one rank of tp.
struct Stage {
  bool first = false, last = false;
  double layers = 0;
  double layer_parameters = 0;  // of one
  double table_parameters = 0;  // embedding and head
  double tokens = 0;            // of a micro-batch
  double in_flight = 0;         // micro-batches of all its layers that wait for backward
  double parameters() const { return layers * layer_parameters + table_parameters; }
};

double layers_of(const Decoder& model, const Split& split, bool at_end) {
  if (split.pp == 1) return model.layers;
  if (!split.embedding_is_layer) return std::ceil(model.layers / split.pp);
  return std::ceil((model.layers + 2) / split.pp) - (at_end ? 1 : 0);
}

// 1F1B; interleaved as Narayanan et al. 2021 (arXiv 2104.04473) order it, in parts of a micro-batch's layers.
double in_flight(const Split& split, int stage) {
  if (split.chunks == 1) return std::min(split.pp - stage, split.micro_batches);
  const double ahead = 2.0 * (split.pp - stage - 1) + (split.chunks - 1.0) * split.pp + 1;
  return std::min(ahead / split.chunks, static_cast<double>(split.micro_batches));
}

Stage stage_of(const Decoder& model, const Split& split, int stage) {
  Stage s;
  s.first = stage == 0;
  s.last = stage == split.pp - 1;
  s.layers = layers_of(model, split, s.first || s.last);
  s.layer_parameters = model.layer_parameters() / split.tp;
  const int tables = s.first && s.last && !model.tied ? 2 : s.first || s.last ? 1 : 0;
  s.table_parameters = tables * model.vocab * model.hidden / split.tp;
  s.tokens = split.micro_batch * split.sequence / split.cp;
  s.in_flight = in_flight(split, stage);
  return s;
}

class Terms {
 public:
  void add(const char* name, double bytes, Pool pool) {
    if (bytes > 0) terms_.push_back({name, bytes, pool});
  }
  std::vector<MemoryTerm> take() { return std::move(terms_); }

 private:
  std::vector<MemoryTerm> terms_;
};

// The lifetime table of data parallelism: ZeRO-1 shards states, 2 gradients as well, 3 weights as well.
void model_states(Terms& terms, const Stage& s, const Split& split, const MemoryPractice& p) {
  const auto share = [&](int from) { return p.zero >= from ? 1.0 / split.dp : 1.0; };
  const double all = s.parameters();
  terms.add("weights", p.weights * all * share(3), p.weights_on_host ? Pool::kHost : Pool::kAlways);
  terms.add("gradients", p.gradients * all * share(2),
            p.states_on_host && p.zero >= 2 ? Pool::kHost : Pool::kAlways);
  terms.add("gradient sums", p.gradient_sums * all * share(2), Pool::kAlways);
  terms.add("optimizer states", p.states * all * share(1),
            p.states_on_host ? Pool::kHost : Pool::kAlways);
  if (p.states_on_host)  // CPU Adam reads gradients in fp32
    terms.add("gradients in fp32", kSingle * all * share(1), Pool::kHost);
}

// Units of ZeRO-3: a layer each, and the tables. One computes while the next arrives; the tables stay from forward to
// backward, beside the buffer that they arrived in.
void gathered(Terms& terms, const Stage& s, const MemoryPractice& p) {
  if (p.zero < 3) return;
  const double tables = s.table_parameters, layer = s.layer_parameters;
  if (p.gathered_all_step) {
    terms.add("gathered units", kHalf * s.parameters(), Pool::kAlways);
    terms.add("gradient sums", kSingle * s.parameters(), Pool::kAlways);
  } else {
    const double layers =
        p.live_parameters > 0 ? std::min(2 * layer, p.live_parameters) : 2 * layer;
    terms.add("gathered units", kHalf * (tables + layers), Pool::kAlways);
    if (p.live_parameters == 0) terms.add("tables as they arrive", kHalf * tables, Pool::kAlways);
  }
}

void activations(Terms& terms, const Stage& s, const Decoder& model, const Split& split,
                 const MemoryPractice& p, const MemoryConstants& constants) {
  const LayerBytes layer = layer_bytes(model, split, p);
  const double whole = model.hidden / (split.sequence_parallel ? split.tp : 1);
  double kept = s.in_flight * s.layers * s.tokens * layer.kept;
  terms.add("kept activations", kept, Pool::kKept);
  if (p.inputs_on_host)
    terms.add("kept activations on the host",
              s.in_flight * s.layers * s.tokens * kHalf * model.hidden, Pool::kHost);
  double between = 0;
  if (s.first) between += (p.embedding_norm ? kHalf : 0) * whole + (p.dropout ? whole : 0);
  if (!s.last) between += kHalf * model.hidden / split.tp;  // sent, and kept for its backward
  between *= s.in_flight * s.tokens;
  terms.add("embedding and stage outputs", between, Pool::kKept);
  if (!p.expandable && split.pp > 1)
    terms.add("holes", constants.holes * (kept + between), Pool::kHoles);
  terms.add("layer at work", s.tokens * layer.working, Pool::kForward);

  terms.add("gradients of a layer", s.tokens * layer.gradients, Pool::kBackward);
}

// Gradients of parameters before they are where they stay.
void fresh_gradients(Terms& terms, const Stage& s, const MemoryPractice& p) {
  const double unit = std::max(s.layer_parameters, s.table_parameters);
  if (p.zero >= 3) {
    const double at_once = p.live_parameters > 0 ? std::min(unit, p.live_parameters / 2) : unit;
    const double copy = p.gathered_all_step ? 0 : p.reduced_copy;
    terms.add("gradients of a unit", (kHalf + copy) * at_once, Pool::kBackward);
  } else if (p.gradient_sums == 0) {  // else it becomes the gradient
    terms.add("gradient of a unit", p.gradients * unit, Pool::kUnit);
  }
}

void loss(Terms& terms, const Stage& s, const Decoder& model, const Split& split,
          const MemoryPractice& p) {
  if (!s.last) return;
  const double logits = s.tokens * model.vocab / split.tp;
  terms.add("logits and their copies", p.loss_live * logits, Pool::kLoss);
  terms.add("holes of the loss", (p.loss - p.loss_live) * logits, Pool::kLoss);
}

void exchanges(Terms& terms, const Stage& s, const Split& split, const MemoryPractice& p) {
  const double all = s.parameters();
  const bool on_host = p.states_on_host;
  if (p.zero >= 3) return;  // unit by unit, counted as gathered and as gradients of a unit
  if (p.reduce_bucket > 0)
    terms.add("reduction bucket",
              std::min(p.reduce_bucket, std::max(p.gradients, p.gradient_sums) * all), Pool::kStep);
  if (p.gather_bucket > 0)
    terms.add("gather bucket", std::min(p.gather_bucket, p.weights * all), Pool::kStep);
  if (!on_host)
    terms.add("copies of the update",
              p.step_whole * all + p.step_own * all / (p.zero >= 1 ? split.dp : 1), Pool::kStep);
}

}  // namespace

double Decoder::layer_parameters() const {
  return 2 * hidden * hidden + 2 * hidden * kv_width() + (gated ? 3 : 2) * hidden * ffn_width();
}

double Decoder::parameters() const {
  return layers * layer_parameters() + (tied ? 1 : 2) * vocab * hidden;
}

int communicators(const Split& split, int stage, bool tied) {
  const bool ends = stage == 0 || stage == split.pp - 1;
  const bool more = split.tp * split.pp * split.dp > 1;  // all ranks
  int groups = more ? 1 : 0;
  if (split.tp > 1) ++groups;
  if (split.dp > 1) ++groups;
  if (split.cp > 1 && split.cp < split.dp) ++groups;
  if (split.pp > 1) groups += ends ? 1 : 2;  // one for each neighbour
  if (split.pp > 1 && ends && tied) ++groups;
  if (split.pp > 1 && split.tp > 1) ++groups;  // the ranks of one model, for its norm
  return groups;
}

DeviceMemory stage_memory(const Decoder& model, const Split& split, const MemoryPractice& practice,
                          int stage, const MemoryConstants& constants) {
  const Stage s = stage_of(model, split, stage);
  Terms terms;
  model_states(terms, s, split, practice);
  gathered(terms, s, practice);
  activations(terms, s, model, split, practice, constants);
  fresh_gradients(terms, s, practice);
  loss(terms, s, model, split, practice);
  exchanges(terms, s, split, practice);
  terms.add("context", constants.context, Pool::kOutside);
  terms.add("communicators", communicators(split, stage, model.tied) * constants.communicator,
            Pool::kOutside);
  return {.stage = stage, .terms = terms.take(), .expandable = practice.expandable};
}

DeviceMemory device_memory(const Decoder& model, const Split& split, const MemoryPractice& practice,
                           const MemoryConstants& constants) {
  DeviceMemory most = stage_memory(model, split, practice, 0, constants);
  for (const int stage : {1, split.pp - 1}) {
    if (stage <= 0 || stage >= split.pp) continue;
    DeviceMemory other = stage_memory(model, split, practice, stage, constants);
    if (other.on_device() > most.on_device()) most = std::move(other);
  }
  return most;
}

}  // namespace trireme::scoreboard
