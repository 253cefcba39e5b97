#include "trireme/model/blocks/layered.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/config/head_width.h"
#include "trireme/exec/past.h"
#include "trireme/model/blocks/past_attention.h"
#include "trireme/ops/attention/attention.h"
#include "trireme/ops/feed_forward.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"
#include "trireme/ops/norm_across.h"

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

ops::Gelu gelu_of(config::Activation activation) {
  switch (activation) {
    case config::Activation::kGelu: return ops::Gelu::kExact;
    case config::Activation::kGeluTanh: return ops::Gelu::kTanh;
    case config::Activation::kQuickGelu: break;
  }
  TRIREME_CHECK(false, "no layer has activation {}", static_cast<int>(activation));
}

ops::Gate gate_of(config::GateActivation gate) {
  return gate == config::GateActivation::kSilu ? ops::Gate::kSilu : ops::Gate::kGeluTanh;
}

ops::Gain gain_of(const model::Layer& layer) {
  return layer.from_one ? ops::Gain::kFromOne : ops::Gain::kWhole;
}

}  // namespace

LayeredBlock::LayeredBlock(const config::Job& job, std::vector<model::Layer> layers,
                           const plan::Node& node, DecoderTables tables, std::vector<int> adapted,
                           std::shared_ptr<const Across> across)
    : AdaptedBlock(job.lora, std::move(adapted), std::move(across)),
      layers_(std::move(layers)),
      ended_(last_readers(layers_)),
      kept_(node),
      norm_eps_(job.model.norm_eps),
      dropout_(job.model.dropout),
      tables_(std::move(tables)),
      axes_(frequency_axes(job)),
      head_width_(config::head_width(job.model)),
      whole_heads_{config::attended_width(job.model), head_width_ * job.model.kv_heads} {}

std::vector<at::Tensor> LayeredBlock::forward(const std::vector<at::Tensor>& inputs,
                                              const exec::BlockContext& context) {
  Run run{.inputs = inputs,
          .context = context,
          .tensors = std::vector<ops::Operand>(static_cast<std::size_t>(tensors_of(layers_)))};
  run.tensors[0] = inputs[0];
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const model::Layer& layer = layers_[i];
    switch (layer.op) {
      case Op::kNorm: norm(layer, run); break;
      case Op::kColumns: columns(layer, run); break;
      case Op::kAttention: attention(layer, run); break;
      case Op::kRows: rows(layer, run); break;
      case Op::kAdd:
        run.tensors[layer.writes[0]] =
            run.tensors[layer.reads[0]].value + run.tensors[layer.reads[1]].value;
        break;
    }
    for (const int tensor : ended_[i]) run.tensors[tensor] = {};
  }
  return {run.tensors.back().value};
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
  std::vector<ops::Projection> all;
  for (std::size_t i = 0; i < layer.weights.size(); ++i)
    all.push_back({.weight = param(layer.weights[i]),
                   .bias = bias(layer, i),
                   .adapter = adapter(layer.weights[i], run.inputs, run.context)});
  std::vector<ops::Operand> written =
      ops::column_linears(run.tensors[layer.reads[0]], all, tp(), run.context.weight_gradients,
                          layer.wide ? kept_.mlp : ops::Keep::kYes);
  for (std::size_t i = 0; i < written.size(); ++i)
    run.tensors[layer.writes[i]] = std::move(written[i]);
}

std::array<at::Tensor, 3> LayeredBlock::heads(const model::Layer& layer, Run& run) const {
  const auto taken = [&](std::size_t of) {
    return std::exchange(run.tensors[layer.reads[of]], {}).value;
  };
  std::array<at::Tensor, 3> qkv;
  const bool together = layer.reads.size() == 1;
  if (together) {
    const std::vector<at::Tensor> parts = taken(0).chunk(3, -1);
    std::ranges::transform(parts, qkv.begin(), [](const at::Tensor& x) { return x.contiguous(); });
  } else {
    for (std::size_t of = 0; of < qkv.size(); ++of) qkv[of] = taken(of);
  }
  for (std::size_t of = 0; of < layer.weights.size(); ++of)
    qkv[of] = head_norm(layer, of, std::exchange(qkv[of], {}), run);
  if (!layer.attends.rotary) {
    if (layer.multiplier != 1) qkv[0] = qkv[0] * layer.multiplier;
    return qkv;
  }
  const DecoderTables::Both& tables = layer.attends.window > 0 ? tables_.sliding : tables_.full;
  const at::Tensor given = across().own_tokens(positions(run.inputs));
  const auto turn = [&](at::Tensor& x, const ops::RotaryTable& rows) {
    x = given.defined() ? turned_each(x, rows) : ops::rotary(x, rows);
  };
  const std::int64_t tokens = qkv[0].size(1);
  const ops::RotaryTable keys = rows_of(tables.keys, given, tokens, run);
  turn(qkv[0], layer.multiplier == 1 ? keys : rows_of(tables.queries, given, tokens, run));
  turn(qkv[1], keys);
  return qkv;
}

at::Tensor LayeredBlock::head_norm(const model::Layer& layer, std::size_t of, at::Tensor x,
                                   const Run& run) const {
  const at::Tensor& gain = param(layer.weights[of]);
  const ops::WeightGradientsPtr& gradients = run.context.weight_gradients;
  if (layer.whole_heads) {
    // A key-value head that an earlier rank's queries read as well.
    const bool shares = of == 1 && across().heads().offset > 0;
    const ops::Features features{.width = whole_heads_[of], .shared = shares ? head_width_ : 0};
    return ops::rms_norm_across(x, gain, features, norm_eps_, tp(), gradients);
  }
  const at::Tensor heads = std::exchange(x, {}).unflatten(2, {-1, gain.size(0)});
  return ops::rms_norm(heads, gain, norm_eps_, gradients, gain_of(layer)).flatten(2);
}

void LayeredBlock::attention(const model::Layer& layer, Run& run) const {
  exec::Past* const past = run.context.past;
  const ops::ContextParallel cp = this->cp(run.inputs);
  ops::AttentionHeads heads = across().heads();
  if (drops(layer, run)) {
    heads.dropout = dropout_;
    heads.key = run.context.generator(*layer.draw).current_seed();
  }
  ops::Operand& mixed = run.tensors[layer.writes[0]];
  const std::int64_t window = layer.attends.window;
  const auto mask = [&] {
    return across().mask(within(across().own_tokens(positions(run.inputs))), cp, window);
  };
  if (past == nullptr && layer.reads.size() == 1 && !layer.attends.rotary) {
    mixed = ops::attention_packed(run.tensors[layer.reads[0]], heads, mask(), cp, kept_.attention);
    return;
  }
  const auto [q, k, v] = this->heads(layer, run);
  if (past == nullptr) {
    mixed = ops::attention(q, k, v, heads, mask(), cp, kept_.attention);
    return;
  }
  past->rows += q.size(1);
  const auto split = [](const at::Tensor& x, std::int64_t count) {
    return x.unflatten(2, {count, -1});
  };
  // A window of 0 is all.
  mixed = attend_after(*past, split(q, heads.heads), split(k, heads.kv_heads),
                       split(v, heads.kv_heads), window - 1)
              .flatten(2);
}

ops::RotaryTable LayeredBlock::rows_of(const ops::RotaryTable& table, const at::Tensor& positions,
                                       std::int64_t tokens, const Run& run) const {
  const exec::Past* const past = run.context.past;
  if (past != nullptr) return table.at(at::arange(past->rows, past->rows + tokens));
  if (!positions.defined()) return table.at(across().positions(cp(run.inputs)));
  if (!axes_.defined()) return table.at(positions.flatten());
  return by_axes(table, positions.narrow(2, 0, 3), axes_);
}

at::Tensor LayeredBlock::within(const at::Tensor& positions) const {
  if (!axes_.defined()) return positions;
  return positions.size(2) > 3 ? positions.select(2, 3) : at::Tensor();
}

void LayeredBlock::rows(const model::Layer& layer, Run& run) const {
  const ops::Operand& x = run.tensors[layer.reads[0]];
  const at::Tensor &weight = param(layer.weights[0]), bias = this->bias(layer, 0);
  const ops::WeightGradientsPtr& gradients = run.context.weight_gradients;
  const bool gated = layer.reads.size() > 1, active = gated || layer.activation;
  const ops::Adapter adapter =
      this->adapter(layer.weights[0], run.inputs, run.context,
                    active ? across().feature_columns() : across().head_columns());
  at::Tensor y;
  if (gated)
    y = ops::gated_linear(x, run.tensors[layer.reads[1]], weight, tp(), gradients, adapter,
                          gate_of(layer.gate));
  else if (active)
    y = ops::gelu_linear(x, weight, bias, tp(), gradients, adapter, gelu_of(*layer.activation));
  else
    y = ops::row_linear(x, weight, bias, tp(), gradients, adapter);
  if (layer.multiplier != 1) y = y * layer.multiplier;
  if (drops(layer, run))
    y = ops::dropout(y, dropout_, run.context.generator(*layer.draw).current_seed(),
                     across().rows_of(y, cp(run.inputs)));
  run.tensors[layer.writes[0]] = std::move(y);
}

}  // namespace trireme::blocks
