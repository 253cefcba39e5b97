// Suffixes: b sample, t token, d hidden width, f feed-forward width.
#include "trireme/models/gpt.h"

#include "trireme/ops/attention.h"
#include "trireme/ops/embedding.h"
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
  const at::Tensor qkv =
      linear_biased(ops::layer_norm(x_btd, param(kNorm1), param(kNorm1Bias), norm_eps_), kQkv);
  const at::Tensor attended_btd = linear_biased(ops::causal_attention_packed(qkv, heads), kOut);
  const at::Tensor middle_btd = x_btd + noisy(attended_btd, dropout_, context, kAfterAttention);
  const at::Tensor up_btf =
      linear_biased(ops::layer_norm(middle_btd, param(kNorm2), param(kNorm2Bias), norm_eps_), kUp);
  const at::Tensor down_btd = linear_biased(ops::gelu_tanh(up_btf), kDown);
  return {middle_btd + noisy(down_btd, dropout_, context, kAfterMlp)};
}

at::Tensor GptHead::norm(const at::Tensor& x) const {
  return ops::layer_norm(x, param(kNorm), param(kNormBias), norm_eps_);
}

}  // namespace trireme::models
