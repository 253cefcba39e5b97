#include "trireme/model/layers/layer_bytes.h"

#include <algorithm>

#include "trireme/config/head_width.h"

namespace trireme::model {
namespace {

using Op = Layer::Op;

bool has_layer_norms(const BlockLayers& block) {
  return std::ranges::any_of(block.layers, [](const Layer& layer) {
    return layer.op == Op::kNorm && !layer.biases.empty();
  });
}

// With the channel that biases of keys need.
config::Model attending(config::Model model, const BlockLayers& block) {
  if (std::ranges::any_of(block.layers, [](const Layer& layer) { return layer.key_bias; }))
    model.head_dim = config::head_width(model) + 1;
  return model;
}

}  // namespace

LayerBytes::LayerBytes(const BlockLayers& block, const TrainedLayers& trained,
                       const config::Model& model, const Sizes& sizes, const PerRank& rank)
    : block_(block),
      trained_(trained),
      model_(model),
      sizes_(sizes),
      rank_(rank),
      tape_(model, sizes, rank, has_layer_norms(block)),
      attention_(attending(model, block), {attending(model, block), rank}, rank),
      flow_(block, trained, sizes.exchanged) {}

std::int64_t LayerBytes::bytes(int tensor) const {
  const BlockTensor& own = block_.tensors[tensor];
  return own.between ? tape_.row : sizes_.tokens * own.features * sizes_.element;
}

std::int64_t LayerBytes::features(const std::vector<int>& tensors) const {
  std::int64_t all = 0;
  for (const int t : tensors)
    all += block_.tensors[t].between ? sizes_.d : block_.tensors[t].features;
  return all;
}

LinearLayers LayerBytes::linear(int weight) const {
  return layers_of(block_.params, {weight}, block_.params[weight].cut.dim, rank_,
                   flow_.is_adapted(weight) ? trained_.adapter_rank : 0);
}

std::int64_t LayerBytes::inner(const Layer& layer) const {
  std::int64_t ranks = 0;
  if (is_linear(layer))
    for (const int weight : layer.weights) ranks += linear(weight).inner;
  return ranks * sizes_.tokens * sizes_.element;
}

std::int64_t LayerBytes::given(const Layer& layer, std::size_t of) const {
  return features(layer.writes.size() == layer.weights.size() ? std::vector{layer.writes[of]}
                                                              : layer.writes);
}

std::int64_t LayerBytes::scaled(const Layer& layer, std::size_t of) const {
  return is_linear(layer) && flow_.scales(layer.weights[of]) ? given(layer, of) : 0;
}

std::int64_t LayerBytes::scaled(const Layer& layer) const {
  std::int64_t all = 0;
  for (std::size_t of = 0; of < layer.weights.size(); ++of) all += scaled(layer, of);
  return all;
}

std::int64_t LayerBytes::magnitudes(const Layer& layer) const {
  const std::int64_t rows = layer.op == Op::kRows ? sizes_.rows : sizes_.tokens;
  const std::int64_t zeros = layer.biases.empty() ? 0 : sizes_.element;
  return scaled(layer) * (rows * sizes_.element + sizes_.statistic + zeros);
}

std::int64_t LayerBytes::head_statistics(const Layer& layer, int heads) const {
  const std::int64_t norms =
      layer.whole_heads ? 1 : block_.tensors[heads].features / config::head_width(model_);
  return sizes_.tokens * norms * sizes_.statistic;
}

std::int64_t LayerBytes::hidden(const Layer& layer) const {
  if (!flow_.flows(layer)) return 0;
  switch (layer.op) {
    case Op::kNorm: return flow_.reaches(layer.writes[1]) ? tape_.statistics : 0;
    case Op::kAttention:
      return attention_.made() - (layer.key_bias ? 0 : attention_.result()) + own_heads(layer);
    case Op::kColumns:
    case Op::kRows: return inner(layer) + magnitudes(layer);
    case Op::kActivation: return gate_bytes(layer);
    case Op::kMixer: return block_.mixer.saved_bytes;
    case Op::kAdd: return 0;
  }
  return 0;
}

std::int64_t LayerBytes::gate_bytes(const Layer& layer) const {
  return layer.activation == config::Activation::kQuickGelu ? bytes(layer.reads[0]) : 0;
}

std::int64_t LayerBytes::own_heads(const Layer& layer) const {
  if (splits_heads(layer)) return sizes_.exchanged ? 0 : attention_.input();
  std::int64_t all = 0;
  if (!norms_heads(layer)) return all;
  for (const int heads : {layer.reads[0], layer.reads[1]})
    all += head_statistics(layer, heads) + (sizes_.exchanged ? 0 : bytes(heads));
  return all;
}

std::int64_t LayerBytes::kept() const {
  std::int64_t all = 0;
  for (int t = 1; t < static_cast<int>(block_.tensors.size()); ++t)
    all += flow_.saved(t) ? bytes(t) : 0;
  for (const Layer& layer : block_.layers) all += hidden(layer);
  return all;
}

}  // namespace trireme::model
