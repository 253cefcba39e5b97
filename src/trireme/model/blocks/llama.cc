// Suffixes: b sample, t token, d hidden width, f feed-forward width.
#include "trireme/model/blocks/llama.h"

#include <ATen/ops/arange.h>

#include "trireme/exec/past.h"
#include "trireme/model/blocks/past_attention.h"
#include "trireme/ops/attention/attention.h"
#include "trireme/ops/embedding.h"
#include "trireme/ops/feed_forward.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"

namespace trireme::blocks {
namespace {

struct LlamaParams {
  enum Param {
    kNorm1,
    kQuery,
    kKey,
    kValue,
    kOut,
    kNorm2,
    kGate,
    kUp,
    kDown,
    kMore  // biases of three, gains of two
  };
};

enum Of : std::size_t { kQueries, kKeys, kValues };

}  // namespace

std::vector<at::Tensor> LlamaEmbed::forward(const std::vector<at::Tensor>& inputs,
                                            const exec::BlockContext& context) {
  return {ops::embedding(inputs[0], param(0), across().first_id(), tp())};
}

std::vector<at::Tensor> LlamaBlock::forward(const std::vector<at::Tensor>& inputs,
                                            const exec::BlockContext& context) {
  using enum LlamaParams::Param;
  const at::Tensor& x_btd = inputs[0];
  const ops::WeightGradientsPtr& gradients = context.weight_gradients;
  const ops::Branching first =
      ops::residual_norm(x_btd, {}, param(kNorm1), {}, norm_eps_, gradients, kept_.norms);
  const auto layer = [&](LlamaParams::Param weight, const at::Tensor& bias = {}) {
    return ops::Projection{
        .weight = param(weight), .bias = bias, .adapter = adapter(weight, inputs, context)};
  };
  const std::vector<ops::Operand> qkv = ops::column_linears(
      first.normed,
      {layer(kQuery, bias(kQueries)), layer(kKey, bias(kKeys)), layer(kValue, bias(kValues))}, tp(),
      gradients);
  const ops::Operand mixed = attend(qkv, inputs, gradients, context.past);
  const ops::Branching second =
      ops::residual_norm(first.stream,
                         ops::row_linear(mixed, param(kOut), {}, tp(), gradients,
                                         adapter(kOut, inputs, context, across().head_columns())),
                         param(kNorm2), {}, norm_eps_, gradients, keep_normed(kUp, kept_));
  const std::vector<ops::Operand> wide =
      ops::column_linears(second.normed, {layer(kGate), layer(kUp)}, tp(), gradients, kept_.mlp);
  const at::Tensor down_btd =
      ops::swiglu_linear(wide[0], wide[1], param(kDown), tp(), gradients,
                         adapter(kDown, inputs, context, across().feature_columns()));
  return {second.stream + down_btd};
}

ops::Operand LlamaBlock::attend(const std::vector<ops::Operand>& qkv,
                                const std::vector<at::Tensor>& inputs,
                                const ops::WeightGradientsPtr& gradients, exec::Past* past) const {
  const std::int64_t tokens = qkv[0].value.size(1);
  const at::Tensor given = across().own_tokens(positions(inputs));
  const ops::ContextParallel cp = this->cp(inputs);
  ops::RotaryTable table;
  if (attends_.rotary)
    table = past != nullptr ? rotary_.at(at::arange(past->rows, past->rows + tokens))
                            : this->table(given, cp);
  const auto turn = [&](const at::Tensor& heads, Of of) {
    const at::Tensor normed = head_norm(heads, of, gradients);
    if (!attends_.rotary) return normed;
    return given.defined() ? turned_each(normed, table) : ops::rotary(normed, table);
  };
  const at::Tensor q = turn(qkv[0], kQueries), k = turn(qkv[1], kKeys);
  const ops::AttentionHeads heads = across().heads();
  if (past == nullptr)
    return ops::attention(q, k, qkv[2], heads, across().mask(within(given), cp, attends_.window),
                          cp, kept_.attention);
  past->rows += tokens;
  const auto split = [](const at::Tensor& x, std::int64_t count) {
    return x.unflatten(2, {count, -1});
  };
  // A window of 0 is all.
  const at::Tensor mixed = attend_after(*past, split(q, heads.heads), split(k, heads.kv_heads),
                                        split(qkv[2].value, heads.kv_heads), attends_.window - 1);
  return mixed.flatten(2);
}

ops::RotaryTable LlamaBlock::table(const at::Tensor& positions,
                                   const ops::ContextParallel& cp) const {
  if (!positions.defined()) return rotary_.at(across().positions(cp));
  if (!axes_.defined()) return rotary_.at(positions.flatten());
  return by_axes(rotary_, positions.narrow(2, 0, 3), axes_);
}

at::Tensor LlamaBlock::within(const at::Tensor& positions) const {
  if (!axes_.defined()) return positions;
  return positions.size(2) > 3 ? positions.select(2, 3) : at::Tensor();
}

at::Tensor LlamaBlock::bias(std::size_t of) const {
  using enum LlamaParams::Param;
  return qkv_bias_ ? param(kMore + of) : at::Tensor();
}

const at::Tensor& LlamaBlock::gain(std::size_t of) const {
  using enum LlamaParams::Param;
  return param(kMore + (qkv_bias_ ? 3 : 0) + of);
}

at::Tensor LlamaBlock::head_norm(const at::Tensor& x, std::size_t of,
                                 const ops::WeightGradientsPtr& gradients) const {
  if (!qk_norm_) return x;
  const at::Tensor heads = x.unflatten(2, {-1, gain(of).size(0)});
  return ops::rms_norm(heads, gain(of), norm_eps_, gradients).flatten(2);
}

at::Tensor LlamaHead::norm(const at::Tensor& x, const ops::WeightGradientsPtr& gradients) const {
  return ops::rms_norm(x, param(0), norm_eps(), gradients);
}

Blocks llama_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks) {
  const config::Model& model = job.model;
  const ops::RotaryTable rotary = decoder_rotary(job, ranks->device());
  const std::vector<config::LayerAttention> layers = config::layer_attention(model);
  const std::vector<plan::Node>& nodes = spec.program.nodes;
  Blocks blocks;
  blocks.push_back(std::make_unique<LlamaEmbed>(ranks));
  for (std::size_t node = 1; node + 1 < nodes.size(); ++node)
    blocks.push_back(std::make_unique<LlamaBlock>(job, layers[node - 1], nodes[node], rotary,
                                                  spec.adapted[node], ranks));
  blocks.push_back(std::make_unique<LlamaHead>(model, nodes.back(), ranks));
  return blocks;
}

}  // namespace trireme::blocks
