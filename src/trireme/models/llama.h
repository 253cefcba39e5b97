// Llama's blocks; arch::llama_spec describes them.
#pragma once

#include "trireme/config/job.h"
#include "trireme/models/blocks.h"
#include "trireme/ops/pointwise.h"

namespace trireme::models {

// [samples, tokens] -> [samples, tokens, d].
class LlamaEmbed : public BoundBlock {
 public:
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;
};

// x + attention(norm(x)) with rotated queries and keys, then x + swiglu(norm(x)).
class LlamaBlock : public BoundBlock {
 public:
  // `rotary` serves at least model.seq_len positions.
  LlamaBlock(const config::Model& model, ops::RotaryTable rotary)
      : heads_(model.heads),
        kv_heads_(model.kv_heads),
        norm_eps_(model.norm_eps),
        rotary_(std::move(rotary)) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  std::int64_t heads_;
  std::int64_t kv_heads_;
  double norm_eps_;
  ops::RotaryTable rotary_;
};

class LlamaHead : public LanguageHead {
 public:
  explicit LlamaHead(const config::Job& job)
      : LanguageHead(job.recompute.logits), norm_eps_(job.model.norm_eps) {}

 protected:
  at::Tensor norm(const at::Tensor& x) const override;

 private:
  double norm_eps_;
};

}  // namespace trireme::models
