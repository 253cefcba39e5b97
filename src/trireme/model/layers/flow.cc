#include "trireme/model/layers/flow.h"

#include <algorithm>

namespace trireme::model {

using Op = Layer::Op;

LayerFlow::LayerFlow(const BlockLayers& block, const TrainedLayers& trained, bool exchanged)
    : block_(block),
      trained_(trained),
      reaches_(block.tensors.size(), false),
      saved_(block.tensors.size(), false),
      last_(block.tensors.size(), -1) {
  reaches_[0] = trained.gradients.input;
  for (std::size_t i = 0; i < block.layers.size(); ++i) {
    const Layer& layer = block.layers[i];
    bool through = (is_linear(layer) || layer.op == Op::kMixer) && trains(layer);
    for (const int t : layer.reads) {
      last_[t] = static_cast<int>(i);
      through = through || reaches(t);
    }
    for (const int t : layer.writes) reaches_[t] = reaches(t) || through;
    // A gain changes what is normed, not the stream.
    if (layer.op == Op::kNorm && trains(layer)) reaches_[layer.writes[1]] = true;
  }
  for (const Layer& layer : block.layers) mark_saved(layer, exchanged);
}

bool LayerFlow::flows(const Layer& layer) const {
  return std::ranges::any_of(layer.writes, [&](int t) { return reaches(t); });
}

bool LayerFlow::is_adapted(int weight) const {
  return std::ranges::find(trained_.adapted, weight) != trained_.adapted.end();
}

bool LayerFlow::scales(int weight) const { return trained_.dora && is_adapted(weight); }

bool LayerFlow::adapts(const Layer& layer) const {
  return std::ranges::any_of(layer.weights, [&](int weight) { return is_adapted(weight); });
}

bool LayerFlow::trains(const Layer& layer) const {
  return !layer.weights.empty() && (trained_.gradients.own || (is_linear(layer) && adapts(layer)));
}

int LayerFlow::gradient_of(int tensor) const {
  for (const Layer& layer : block_.layers)
    if (layer.op == Op::kAdd && std::ranges::find(layer.reads, tensor) != layer.reads.end())
      return gradient_of(layer.writes[0]);
  return tensor;
}

void LayerFlow::mark_saved(const Layer& layer, bool exchanged) {
  if (!flows(layer)) return;
  switch (layer.op) {
    case Op::kNorm: saved_[layer.writes[0]] = true; return;
    case Op::kColumns:
    case Op::kMixer:
      if (trains(layer)) saved_[layer.reads[0]] = true;
      return;
    case Op::kAttention:
      for (const int t : layer.reads) saved_[t] = !exchanged && !splits_heads(layer);
      if (norms_heads(layer)) saved_[layer.reads[0]] = saved_[layer.reads[1]] = true;
      // Without the channel more it is a copy.
      saved_[layer.writes[0]] = !layer.key_bias;
      return;
    case Op::kActivation: saved_[layer.reads[0]] = true; return;
    case Op::kRows:
      for (const int t : layer.reads)
        if (activates(layer) || trains(layer)) saved_[t] = true;
      return;
    case Op::kAdd: return;
  }
}

}  // namespace trireme::model
