// Suffixes: b sample, t token, d hidden width, f feed-forward width.
#include "trireme/models/llama.h"

#include "trireme/ops/attention.h"
#include "trireme/ops/embedding.h"
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
  const at::Tensor normed_btd = ops::rms_norm(x_btd, param(kNorm1), norm_eps_);
  const at::Tensor attended_btd =
      ops::causal_attention(ops::rotary(linear(normed_btd, kQuery), rotary_),
                            ops::rotary(linear(normed_btd, kKey), rotary_),
                            linear(normed_btd, kValue), {.heads = heads_, .kv_heads = kv_heads_});
  const at::Tensor middle_btd = x_btd + linear(attended_btd, kOut);
  const at::Tensor wide_btd = ops::rms_norm(middle_btd, param(kNorm2), norm_eps_);
  const at::Tensor gated_btf = ops::swiglu(linear(wide_btd, kGate), linear(wide_btd, kUp));
  return {middle_btd + linear(gated_btf, kDown)};
}

at::Tensor LlamaHead::norm(const at::Tensor& x) const {
  return ops::rms_norm(x, param(0), norm_eps_);
}

}  // namespace trireme::models
