// Suffixes: b sample, t token, d hidden width, f feed-forward width.
#include "trireme/families/gpt/blocks.h"

#include "trireme/exec/past.h"
#include "trireme/model/blocks/decoder.h"
#include "trireme/ops/embedding.h"
#include "trireme/ops/norm.h"
#include "trireme/ops/pointwise.h"

namespace trireme::blocks {
namespace {

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
  if (dropout_ == 0 || !context.training) return {placed_btd};
  return {ops::dropout(placed_btd, dropout_, context.generator(0).current_seed(),
                       across().rows_of(placed_btd, cp))};
}

at::Tensor GptHead::norm(const at::Tensor& x, const ops::WeightGradientsPtr& gradients) const {
  return ops::layer_norm(x, param(kNorm), param(kNormBias), norm_eps(), gradients);
}

Blocks gpt_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks) {
  const std::vector<plan::Node>& nodes = spec.program.nodes;
  Blocks blocks;
  blocks.push_back(std::make_unique<GptEmbed>(job.model, ranks));
  for (std::size_t node = 1; node + 1 < nodes.size(); ++node)
    blocks.push_back(std::make_unique<DecoderBlock>(job, spec.layers[node], nodes[node],
                                                    DecoderTables{}, spec.adapted[node], ranks));
  blocks.push_back(std::make_unique<GptHead>(job.model, nodes.back(), ranks));
  return blocks;
}

}  // namespace trireme::blocks
