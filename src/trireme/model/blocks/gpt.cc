// Suffixes: b sample, t token, d hidden width, f feed-forward width.
#include "trireme/model/blocks/gpt.h"

#include "trireme/exec/past.h"
#include "trireme/model/blocks/past_attention.h"
#include "trireme/ops/embedding.h"
#include "trireme/ops/feed_forward.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"
#include "trireme/ops/pointwise.h"

namespace trireme::blocks {
namespace {

// The random draws of one forward.
enum Draw { kAfterEmbedding, kProbabilities, kAfterAttention, kAfterMlp };

std::uint64_t noise_key(const exec::BlockContext& context, Draw draw) {
  return context.generator(draw).current_seed();
}

at::Tensor noisy(const at::Tensor& x, double p, const exec::BlockContext& context, Draw draw,
                 const Across& across, const ops::ContextParallel& cp) {
  if (p == 0 || !context.training) return x;
  return ops::dropout(x, p, noise_key(context, draw), across.rows_of(x, cp));
}

// Learned positions of the rows of x, which begin as `tokens` of a sample after `past` of them; `given` within documents.
at::Tensor positions_of(const at::Tensor& x, std::int64_t tokens, std::int64_t past,
                        const at::Tensor& given, const at::Tensor& table, const Across& across,
                        const ops::ContextParallel& cp) {
  if (given.defined()) {
    const at::Tensor own = across.own_rows(x);
    const at::Tensor all = given.flatten();
    return ops::embedding(own.defined() ? all.index_select(0, own) : all, table).view(x.sizes());
  }
  const at::Tensor rows = across.rows_of(x, cp);
  if (!rows.defined()) return table.narrow(0, past, tokens);
  return ops::embedding(rows.remainder(tokens * cp.size()), table).view(x.sizes());
}

ops::Operand attended_after(exec::Past& past, const at::Tensor& qkv,
                            const ops::AttentionHeads& heads) {
  const std::vector<at::Tensor> parts = qkv.unflatten(2, {3, heads.heads, -1}).unbind(2);
  return attend_after(past, parts[0], parts[1], parts[2]).flatten(2);
}

enum EmbedParam { kTokens, kPositions };
enum HeadParam { kNorm, kNormBias };

}  // namespace

std::vector<at::Tensor> GptEmbed::forward(const std::vector<at::Tensor>& inputs,
                                          const exec::BlockContext& context) {
  const at::Tensor& tokens_bt = inputs[0];
  const ops::ContextParallel cp = this->cp(inputs);
  const at::Tensor x_btd = ops::embedding(tokens_bt, param(kTokens), across().first_id(), tp());
  const std::int64_t tokens = tokens_bt.size(1);
  const std::int64_t before = context.past == nullptr ? 0 : context.past->rows;
  if (context.past != nullptr) context.past->rows += tokens;
  const at::Tensor placed_btd = x_btd + positions_of(x_btd, tokens, before, positions(inputs),
                                                     param(kPositions), across(), cp);
  return {noisy(placed_btd, dropout_, context, kAfterEmbedding, across(), cp)};
}

std::vector<at::Tensor> GptBlock::forward(const std::vector<at::Tensor>& inputs,
                                          const exec::BlockContext& context) {
  using enum BiasedBlock::Param;
  const at::Tensor& x_btd = inputs[0];
  const ops::ContextParallel cp = this->cp(inputs);
  ops::AttentionHeads heads = across().heads();
  if (dropout_ > 0 && context.training) {
    heads.dropout = dropout_;
    heads.key = noise_key(context, kProbabilities);
  }
  const ops::WeightGradientsPtr& gradients = context.weight_gradients;
  const ops::Branching first = ops::residual_norm(x_btd, {}, param(kNorm1), param(kNorm1Bias),
                                                  norm_eps_, gradients, kept_.norms);
  const at::Tensor qkv =
      ops::column_linear(first.normed, param(kQkv), param(kQkvBias), tp(), gradients,
                         ops::Keep::kYes, adapter(kQkv, inputs, context));
  const at::Tensor attended_btd =
      ops::row_linear(context.past != nullptr ? attended_after(*context.past, qkv, heads)
                                              : attend(qkv, heads, inputs),
                      param(kOut), param(kOutBias), tp(), gradients,
                      adapter(kOut, inputs, context, across().head_columns()));
  const ops::Branching second = ops::residual_norm(
      first.stream, noisy(attended_btd, dropout_, context, kAfterAttention, across(), cp),
      param(kNorm2), param(kNorm2Bias), norm_eps_, gradients, keep_normed(kUp, kept_));
  const ops::Operand up_btf =
      ops::column_linear(second.normed, param(kUp), param(kUpBias), tp(), gradients, kept_.mlp,
                         adapter(kUp, inputs, context));
  const at::Tensor down_btd =
      ops::gelu_linear(up_btf, param(kDown), param(kDownBias), tp(), gradients,
                       adapter(kDown, inputs, context, across().feature_columns()));
  return {second.stream + noisy(down_btd, dropout_, context, kAfterMlp, across(), cp)};
}

ops::Operand GptBlock::attend(const at::Tensor& qkv, const ops::AttentionHeads& heads,
                              const std::vector<at::Tensor>& inputs) const {
  const ops::ContextParallel cp = this->cp(inputs);
  return ops::attention_packed(qkv, heads, across().mask(positions(inputs), cp), cp,
                               kept_.attention);
}

at::Tensor GptHead::norm(const at::Tensor& x, const ops::WeightGradientsPtr& gradients) const {
  return ops::layer_norm(x, param(kNorm), param(kNormBias), norm_eps(), gradients);
}

Blocks gpt_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks) {
  const std::vector<plan::Node>& nodes = spec.program.nodes;
  Blocks blocks;
  blocks.push_back(std::make_unique<GptEmbed>(job.model, ranks));
  for (std::size_t node = 1; node + 1 < nodes.size(); ++node)
    blocks.push_back(std::make_unique<GptBlock>(job, nodes[node], spec.adapted[node], ranks));
  blocks.push_back(std::make_unique<GptHead>(job.model, nodes.back(), ranks));
  return blocks;
}

}  // namespace trireme::blocks
