#include "trireme/model/blocks/layered.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "trireme/model/blocks/activation.h"
#include "trireme/model/blocks/past_attention.h"
#include "trireme/ops/feed_forward.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"
#include "trireme/ops/norm_across.h"
#include "trireme/ops/pointwise.h"
#include "trireme/ops/tensor_parallel_rows.h"

namespace trireme::blocks {
namespace {

using Op = model::Layer::Op;

// A stream that continues without a branch has the number of what it continues.
int tensors_of(const std::vector<model::Layer>& layers) {
  int most = 0;
  for (const model::Layer& layer : layers)
    for (const int tensor : layer.writes) most = std::max(most, tensor);
  return most + 1;
}

std::vector<std::vector<int>> last_readers(const std::vector<model::Layer>& layers) {
  std::vector<int> last(static_cast<std::size_t>(tensors_of(layers)), -1);
  for (std::size_t i = 0; i < layers.size(); ++i)
    for (const int tensor : layers[i].reads)
      last[static_cast<std::size_t>(tensor)] = static_cast<int>(i);
  std::vector<std::vector<int>> ended(layers.size());
  for (std::size_t tensor = 0; tensor < last.size(); ++tensor)
    if (last[tensor] >= 0)
      ended[static_cast<std::size_t>(last[tensor])].push_back(static_cast<int>(tensor));
  return ended;
}

ops::Gate gate_of(config::GateActivation gate) {
  return gate == config::GateActivation::kSilu ? ops::Gate::kSilu : ops::Gate::kGeluTanh;
}

ops::Gain gain_of(const model::Layer& layer) {
  return layer.from_one ? ops::Gain::kFromOne : ops::Gain::kWhole;
}

// Rows of this rank between parallel regions, without padding, of all rows x inside one. -1: all.
std::int64_t rows_outside(const at::Tensor& x, const ops::TensorParallel& tp) {
  if (!tp.shares_rows()) return -1;
  const std::int64_t all = x.numel() / x.size(-1), most = ops::rows_per_rank(all, tp);
  return std::clamp(all - tp.rank() * most, std::int64_t{0}, most);
}

// softmax(q k^T / sqrt(w) + bias) v: heads get one channel more, in which queries are 1 and keys the bias.
at::Tensor biased_attention(std::array<at::Tensor, 3> qkv, const ops::AttentionHeads& heads,
                            const LayerSight& sight) {
  const auto by_head = [&](const at::Tensor& x) {
    return x.view({x.size(0), x.size(1), heads.heads, -1});
  };
  const auto widened = [](const at::Tensor& x, const at::Tensor& channel) {
    return at::cat({x, channel.expand({x.size(0), x.size(1), x.size(2), 1})}, 3).flatten(2);
  };
  auto& [q, k, v] = qkv;
  const at::Tensor bias = sight.key_bias.to(k.scalar_type());
  const std::int64_t channels = by_head(q).size(3);
  const auto width = static_cast<double>(channels);
  const at::Tensor one = at::ones({1}, q.options()), zero = at::zeros({1}, q.options());
  q = widened(by_head(q) * std::sqrt((width + 1) / width), one * std::sqrt(width + 1));
  k = widened(by_head(k), bias.view({1, -1, 1, 1}));
  v = widened(by_head(v), zero);
  const at::Tensor attended = ops::attention(q, k, v, heads, sight.mask, sight.cp);
  return by_head(attended).narrow(3, 0, channels).flatten(2);
}

}  // namespace

LayeredBlock::LayeredBlock(Setting setting, std::shared_ptr<const Across> across)
    : AdaptedBlock(setting.lora, std::move(setting.adapted), std::move(across)),
      layers_(std::move(setting.layers)),
      ended_(last_readers(layers_)),
      look_(std::move(setting.look)),
      mixer_(std::move(setting.mixer)),
      heads_(setting.heads),
      norm_eps_(setting.norm_eps),
      dropout_(setting.dropout),
      kept_(setting.kept) {}

std::vector<at::Tensor> LayeredBlock::forward(const std::vector<at::Tensor>& inputs,
                                              const exec::BlockContext& context) {
  Run run{.inputs = inputs,
          .context = context,
          .tensors = std::vector<ops::Operand>(static_cast<std::size_t>(tensors_of(layers_)))};
  // A part of a sequence may end before its next row.
  if (context.past != nullptr && inputs[0].size(-2) == 0) return {inputs[0]};
  const bool one_sample = inputs[0].dim() == 2;
  run.tensors[0] = one_sample ? inputs[0].unsqueeze(0) : inputs[0];
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    this->run(layers_[i], run);
    for (const int tensor : ended_[i]) run.tensors[tensor] = {};
  }
  const at::Tensor& y = run.tensors.back().value;
  return {one_sample ? y.squeeze(0) : y};
}

void LayeredBlock::run(const model::Layer& layer, Run& run) const {
  switch (layer.op) {
    case Op::kNorm: return norm(layer, run);
    case Op::kColumns: return columns(layer, run);
    case Op::kAttention: return attention(layer, run);
    case Op::kActivation:
      run.tensors[layer.writes[0]] =
          activated(run.tensors[layer.reads[0]].value, *layer.activation);
      return;
    case Op::kRows: return rows(layer, run);
    case Op::kMixer: return mix(layer, run);
    case Op::kAdd:
      run.tensors[layer.writes[0]] =
          run.tensors[layer.reads[0]].value + run.tensors[layer.reads[1]].value;
      return;
  }
}

void LayeredBlock::norm(const model::Layer& layer, Run& run) const {
  const auto reader = std::ranges::find_if(layers_, [&](const model::Layer& other) {
    return other.wide && other.reads[0] == layer.writes[1];
  });
  const ops::Keep keep =
      reader != layers_.end() ? keep_normed(reader->weights[0], kept_) : kept_.norms;
  const at::Tensor branch =
      layer.reads.size() > 1 ? run.tensors[layer.reads[1]].value : at::Tensor();
  ops::Branching both = ops::residual_norm(run.tensors[layer.reads[0]], branch,
                                           param(layer.weights[0]), bias(layer, 0), norm_eps_,
                                           run.context.weight_gradients, keep, gain_of(layer));
  run.tensors[layer.writes[0]] = std::move(both.stream);
  run.tensors[layer.writes[1]] = std::move(both.normed);
}

void LayeredBlock::columns(const model::Layer& layer, Run& run) const {
  const ops::WeightGradientsPtr& gradients = run.context.weight_gradients;
  const ops::Keep keep = layer.wide ? kept_.mlp : ops::Keep::kYes;
  std::vector<ops::Projection> all;
  std::vector<ops::Magnitude> magnitudes(layer.weights.size());
  for (std::size_t i = 0; i < layer.weights.size(); ++i) {
    const int weight = layer.weights[i];
    all.push_back({.weight = param(weight),
                   .bias = bias_within(weight, bias(layer, i)),
                   .adapter = adapter(weight, run.inputs, run.context)});
    if (is_scaled(weight))
      magnitudes[i] = magnitude(weight, all[i].adapter, bias(layer, i), run.context);
  }
  std::vector<ops::Operand> written =
      ops::column_linears(run.tensors[layer.reads[0]], all, tp(), gradients, keep);
  for (std::size_t i = 0; i < written.size(); ++i)
    if (is_scaled(layer.weights[i]))
      written[i] = ops::scaled(written[i], magnitudes[i], gradients, keep);
  if (layer.writes.size() > written.size()) {
    const auto parts = written[0].value.chunk(static_cast<std::int64_t>(layer.writes.size()), -1);
    written.clear();
    for (const at::Tensor& part : parts) written.emplace_back(part.contiguous());
  }
  for (std::size_t i = 0; i < written.size(); ++i)
    run.tensors[layer.writes[i]] = std::move(written[i]);
}

LayeredBlock::Heads LayeredBlock::heads(const model::Layer& layer, LayerSight& sight,
                                        Run& run) const {
  const auto taken = [&](std::size_t of) {
    return std::exchange(run.tensors[layer.reads[of]], {}).value;
  };
  Heads qkv;
  if (layer.reads.size() == 1) {
    const std::vector<at::Tensor> parts = taken(0).chunk(3, -1);
    // Rotations read rows that are apart.
    for (std::size_t of = 0; of < qkv.size(); ++of)
      qkv[of] = layer.attends.rotary && of < 2 && layer.weights.empty() ? parts[of]
                                                                        : parts[of].contiguous();
  } else {
    for (std::size_t of = 0; of < qkv.size(); ++of) qkv[of] = taken(of);
  }
  for (std::size_t of = 0; of < layer.weights.size(); ++of)
    qkv[of] = head_norm(layer, of, std::exchange(qkv[of], {}), run);
  if (layer.attends.rotary) {
    qkv[0] = std::exchange(sight.queries, {})(qkv[0]);
    qkv[1] = std::exchange(sight.keys, {})(qkv[1]);
  } else if (layer.multiplier != 1) {
    qkv[0] = qkv[0] * layer.multiplier;
  }
  return qkv;
}

at::Tensor LayeredBlock::head_norm(const model::Layer& layer, std::size_t of, at::Tensor x,
                                   const Run& run) const {
  const at::Tensor& gain = param(layer.weights[of]);
  const ops::WeightGradientsPtr& gradients = run.context.weight_gradients;
  if (layer.whole_heads) {
    const bool keys = of == 1;
    const std::int64_t width = x.size(2) / (keys ? heads_.kv_heads : heads_.heads);
    // A key-value head that an earlier rank's queries read as well.
    const bool shares = keys && heads_.offset > 0;
    const ops::Features features{.width = width * heads_.all_heads / (keys ? heads_.group : 1),
                                 .shared = shares ? width : 0};
    return ops::rms_norm_across(x, gain, features, norm_eps_, tp(), gradients);
  }
  const at::Tensor heads = std::exchange(x, {}).unflatten(2, {-1, gain.size(0)});
  return ops::rms_norm(heads, gain, norm_eps_, gradients, gain_of(layer)).flatten(2);
}

void LayeredBlock::attention(const model::Layer& layer, Run& run) const {
  exec::Past* const past = run.context.past;
  LayerSight sight = look_(layer, run.inputs, past);
  ops::AttentionHeads heads = heads_;
  heads.cap = layer.cap;
  if (drops(layer, run)) {
    heads.dropout = dropout_;
    heads.key = run.context.generator(*layer.draw).current_seed();
  }
  ops::Operand& mixed = run.tensors[layer.writes[0]];
  if (past == nullptr && layer.reads.size() == 1 && !layer.attends.rotary) {
    mixed = ops::attention_packed(run.tensors[layer.reads[0]], heads, sight.mask, sight.cp,
                                  kept_.attention);
    return;
  }
  Heads qkv = this->heads(layer, sight, run);
  if (past != nullptr)
    mixed = attend_to_past(layer, qkv, *past);
  else if (layer.key_bias)
    mixed = biased_attention(std::move(qkv), heads, sight);
  else
    mixed = ops::attention(qkv[0], qkv[1], qkv[2], heads, sight.mask, sight.cp, kept_.attention);
}

at::Tensor LayeredBlock::attend_to_past(const model::Layer& layer, const Heads& qkv,
                                        exec::Past& past) const {
  past.rows += qkv[0].size(1);
  const auto split = [](const at::Tensor& x, std::int64_t count) {
    return x.unflatten(2, {count, -1});
  };
  // A window of 0 is all.
  return attend_after(past, split(qkv[0], heads_.heads), split(qkv[1], heads_.kv_heads),
                      split(qkv[2], heads_.kv_heads), layer.attends.window - 1, layer.cap)
      .flatten(2);
}

void LayeredBlock::mix(const model::Layer& layer, Run& run) const {
  std::vector<at::Tensor> weights;
  for (const int weight : layer.weights) weights.push_back(param(weight));
  run.tensors[layer.writes[0]] =
      mixer_(run.tensors[layer.reads[0]], weights, run.inputs, run.context);
}

at::Tensor LayeredBlock::row_linear(const model::Layer& layer, const at::Tensor& bias,
                                    const ops::Adapter& adapter, const Run& run) const {
  const ops::Operand& x = run.tensors[layer.reads[0]];
  const at::Tensor& weight = param(layer.weights[0]);
  const ops::WeightGradientsPtr& gradients = run.context.weight_gradients;
  if (layer.reads.size() > 1)
    return ops::gated_linear(x, run.tensors[layer.reads[1]], weight, tp(), gradients, adapter,
                             gate_of(layer.gate), bias);
  if (layer.activation)
    return ops::gelu_linear(x, weight, bias, tp(), gradients, adapter, gelu_of(*layer.activation));
  return ops::row_linear(x, weight, bias, tp(), gradients, adapter);
}

void LayeredBlock::rows(const model::Layer& layer, Run& run) const {
  const int weight = layer.weights[0];
  const at::Tensor bias = this->bias(layer, 0);
  ops::Adapter adapter;
  if (is_adapted(weight))
    adapter = this->adapter(weight, run.inputs, run.context,
                            layer.reads.size() > 1 || layer.activation ? across().feature_columns()
                                                                       : across().head_columns());
  ops::Magnitude magnitude;
  if (is_scaled(weight)) {
    magnitude = this->magnitude(weight, adapter, bias, run.context, tp());
    magnitude.rows = rows_outside(run.tensors[layer.reads[0]].value, tp());
  }
  at::Tensor y = row_linear(layer, bias_within(weight, bias), adapter, run);
  if (is_scaled(weight)) y = ops::scaled(y, magnitude, run.context.weight_gradients).value;
  if (layer.multiplier != 1) y = y * layer.multiplier;
  if (drops(layer, run))
    y = ops::dropout(y, dropout_, run.context.generator(*layer.draw).current_seed(),
                     across().rows_of(y, cp(run.inputs)));
  run.tensors[layer.writes[0]] = std::move(y);
}

}  // namespace trireme::blocks
