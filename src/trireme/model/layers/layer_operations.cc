#include "trireme/model/layers/layer_operations.h"

#include <algorithm>

#include "trireme/config/head_width.h"

namespace trireme::model {
namespace {

using Op = Layer::Op;
using What = Operation::What;

double number(std::int64_t count) { return static_cast<double>(count); }

What activation_of(config::Activation activation) {
  return activation == config::Activation::kQuickGelu ? What::kQuickGelu : What::kActivation;
}

}  // namespace

Operation LayerOperations::pass(What what, std::int64_t rows, std::int64_t width) const {
  return {.what = what, .rows = number(rows), .in = number(width)};
}

Operation LayerOperations::sum(const Layer& layer) const {
  Operation sum = pass(What::kSum, sizes_.rows, sizes_.d);
  sum.drops = std::ranges::any_of(block_.layers, [&](const Layer& writer) {
    return writer.draw && std::ranges::find(layer.reads, writer.writes[0]) != layer.reads.end();
  });
  return sum;
}

void LayerOperations::norm(const Layer& layer, All& all) const {
  if (has_branch(layer)) all.push_back(sum(layer));
  all.push_back(
      pass(layer.biases.empty() ? What::kRmsNorm : What::kLayerNorm, sizes_.rows, sizes_.d));
}

void LayerOperations::adapters(const Layer& layer, All& all) const {
  for (std::size_t i = 0; i < layer.weights.size(); ++i) {
    const LinearLayers own = linear(layer.weights[i]);
    if (!own.adapted()) continue;
    Operation adapter = pass(What::kAdapter, sizes_.tokens, read(layer));
    adapter.outs = {number(given(layer, i))};
    adapter.inner = number(own.inner);
    adapter.wide = layer.wide;
    all.push_back(adapter);
    if (!flow_.scales(layer.weights[i])) continue;
    adapter.what = What::kMagnitude;
    if (layer.op == Op::kRows) adapter.rows = number(sizes_.rows);
    all.push_back(std::move(adapter));
  }
}

void LayerOperations::columns(const Layer& layer, All& all) const {
  Operation product = pass(What::kProduct, sizes_.tokens, sizes_.d);
  const bool heads = std::ranges::any_of(block_.layers, [&](const Layer& reader) {
    return reader.op == Op::kAttention && reader.reads[0] == layer.writes[0];
  });
  if (heads)
    product.outs = {number(sizes_.q), number(sizes_.kv), number(sizes_.kv)};
  else
    for (const int tensor : layer.writes) product.outs.push_back(number(features({tensor})));
  product.trains = trained_.gradients.own;
  product.wide = layer.wide;
  if (!layer.biases.empty()) product.bias = product.rows * product.out();
  const double out = product.out();
  all.push_back(std::move(product));
  if (layer.writes.size() > layer.weights.size()) {
    all.push_back(pass(What::kSplit, sizes_.tokens, 0));
    all.back().in = out;
  }
  adapters(layer, all);
}

void LayerOperations::attention(const Layer& layer, All& all) const {
  if (layer.attends.rotary)
    all.push_back(pass(splits_heads(layer) ? What::kSplitRotation : What::kRotation, sizes_.tokens,
                       sizes_.q + sizes_.kv));
  all.push_back({.what = What::kAttention,
                 .rows = number(sizes_.attention.tokens),
                 .drops = layer.draw.has_value(),
                 .tokens = number(model_.seq_len),
                 .window = number(layer.attends.window),
                 .heads = number(sizes_.attention.heads),
                 .width = number(config::head_width(model_)),
                 .causal = layer.causal,
                 .capped = layer.cap > 0});
}

void LayerOperations::rows(const Layer& layer, All& all) const {
  const std::int64_t in = features({layer.reads[0]});
  if (layer.reads.size() > 1) all.push_back(pass(What::kGate, sizes_.tokens, in));
  if (layer.activation) all.push_back(pass(activation_of(*layer.activation), sizes_.tokens, in));
  Operation product = pass(What::kProduct, sizes_.tokens, in);
  product.outs = {number(sizes_.d)};
  product.trains = trained_.gradients.own;
  if (!layer.biases.empty()) product.bias = number(sizes_.rows * sizes_.d);
  all.push_back(std::move(product));
  adapters(layer, all);
}

void LayerOperations::mixer(const Layer& layer, All& all) const {
  for (Operation own : block_.mixer.operations) {
    own.trains = own.what == What::kProduct && flow_.trains(layer);
    all.push_back(std::move(own));
  }
}

std::vector<Operation> LayerOperations::operations() const {
  All all;
  for (const Layer& layer : block_.layers) switch (layer.op) {
      case Op::kNorm: norm(layer, all); break;
      case Op::kColumns: columns(layer, all); break;
      case Op::kAttention: attention(layer, all); break;
      case Op::kActivation:
        all.push_back(
            pass(activation_of(*layer.activation), sizes_.tokens, features({layer.reads[0]})));
        break;
      case Op::kRows: rows(layer, all); break;
      case Op::kMixer: mixer(layer, all); break;
      case Op::kAdd: all.push_back(sum(layer)); break;
    }
  return all;
}

}  // namespace trireme::model
