// Suffixes: b sample, t token, d hidden width, f feed-forward width.
#include "trireme/models/gpt.h"

#include "trireme/ops/attention.h"
#include "trireme/ops/embedding.h"
#include "trireme/ops/feed_forward.h"
#include "trireme/ops/norm.h"
#include "trireme/ops/pointwise.h"

namespace trireme::models {
namespace {

// The random draws of one forward.
enum Draw { kAfterEmbedding, kProbabilities, kAfterAttention, kAfterMlp };

std::uint64_t noise_key(const exec::BlockContext& context, Draw draw) {
  return context.generator(draw).current_seed();
}

at::Tensor noisy(const at::Tensor& x, double p, const exec::BlockContext& context, Draw draw) {
  return p > 0 && context.training ? ops::dropout(x, p, noise_key(context, draw)) : x;
}

enum EmbedParam { kTokens, kPositions };
enum BlockParam {
  kNorm1,
  kNorm1Bias,
  kQkv,
  kQkvBias,
  kOut,
  kOutBias,
  kNorm2,
  kNorm2Bias,
  kUp,
  kUpBias,
  kDown,
  kDownBias
};
enum HeadParam { kNorm, kNormBias };

}  // namespace

std::vector<at::Tensor> GptEmbed::forward(const std::vector<at::Tensor>& inputs,
                                          const exec::BlockContext& context) {
  const at::Tensor& tokens_bt = inputs[0];
  const at::Tensor positions_td = param(kPositions).narrow(0, 0, tokens_bt.size(1));
  const at::Tensor x_btd = ops::embedding(tokens_bt, param(kTokens)) + positions_td;
  return {noisy(x_btd, dropout_, context, kAfterEmbedding)};
}

std::vector<at::Tensor> GptBlock::forward(const std::vector<at::Tensor>& inputs,
                                          const exec::BlockContext& context) {
  const at::Tensor& x_btd = inputs[0];
  ops::AttentionHeads heads{.heads = heads_, .kv_heads = heads_};
  if (dropout_ > 0 && context.training) {
    heads.dropout = dropout_;
    heads.key = noise_key(context, kProbabilities);
  }
  const ops::Branching first =
      ops::residual_norm(x_btd, {}, param(kNorm1), param(kNorm1Bias), norm_eps_);
  const at::Tensor qkv = linear_biased(first.normed, kQkv);
  const at::Tensor attended_btd = linear_biased(ops::causal_attention_packed(qkv, heads), kOut);
  const ops::Branching second =
      ops::residual_norm(first.stream, noisy(attended_btd, dropout_, context, kAfterAttention),
                         param(kNorm2), param(kNorm2Bias), norm_eps_);
  const at::Tensor up_btf = linear_biased(second.normed, kUp);
  const at::Tensor down_btd = ops::gelu_linear(up_btf, param(kDown), param(kDownBias));
  return {second.stream + noisy(down_btd, dropout_, context, kAfterMlp)};
}

at::Tensor GptHead::norm(const at::Tensor& x) const {
  return ops::layer_norm(x, param(kNorm), param(kNormBias), norm_eps_);
}

}  // namespace trireme::models
