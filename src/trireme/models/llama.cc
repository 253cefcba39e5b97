// Suffixes: b sample, t token, d hidden width, f feed-forward width.
#include "trireme/models/llama.h"

#include "trireme/ops/attention.h"
#include "trireme/ops/embedding.h"
#include "trireme/ops/feed_forward.h"
#include "trireme/ops/norm.h"

namespace trireme::models {
namespace {

enum BlockParam { kNorm1, kQuery, kKey, kValue, kOut, kNorm2, kGate, kUp, kDown };

}  // namespace

std::vector<at::Tensor> LlamaEmbed::forward(const std::vector<at::Tensor>& inputs,
                                            const exec::BlockContext& context) {
  return {ops::embedding(inputs[0], param(0))};
}

std::vector<at::Tensor> LlamaBlock::forward(const std::vector<at::Tensor>& inputs,
                                            const exec::BlockContext& context) {
  const at::Tensor& x_btd = inputs[0];
  const ops::Branching first = ops::residual_norm(x_btd, {}, param(kNorm1), {}, norm_eps_);
  const at::Tensor attended_btd =
      ops::causal_attention(ops::rotary(linear(first.normed, kQuery), rotary_),
                            ops::rotary(linear(first.normed, kKey), rotary_),
                            linear(first.normed, kValue), {.heads = heads_, .kv_heads = kv_heads_});
  const ops::Branching second =
      ops::residual_norm(first.stream, linear(attended_btd, kOut), param(kNorm2), {}, norm_eps_);
  const at::Tensor down_btd =
      ops::swiglu_linear(linear(second.normed, kGate), linear(second.normed, kUp), param(kDown));
  return {second.stream + down_btd};
}

at::Tensor LlamaHead::norm(const at::Tensor& x) const {
  return ops::rms_norm(x, param(0), norm_eps_);
}

}  // namespace trireme::models
