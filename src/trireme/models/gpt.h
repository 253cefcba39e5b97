// GPT-2's blocks; arch::gpt_spec describes them.
#pragma once

#include "trireme/config/job.h"
#include "trireme/models/blocks.h"

namespace trireme::models {

// Token plus position embedding, then dropout: [samples, tokens] -> [samples, tokens, d].
class GptEmbed : public BoundBlock {
 public:
  explicit GptEmbed(const config::Model& model) : dropout_(model.dropout) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  double dropout_;
};

// x + attention(norm(x)), then x + mlp(norm(x)). In training, dropout on probabilities and on what each
// branch adds.
class GptBlock : public BoundBlock {
 public:
  explicit GptBlock(const config::Model& model)
      : heads_(model.heads), norm_eps_(model.norm_eps), dropout_(model.dropout) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  std::int64_t heads_;
  double norm_eps_;
  double dropout_;
};

class GptHead : public LanguageHead {
 public:
  explicit GptHead(const config::Job& job)
      : LanguageHead(job.recompute.logits), norm_eps_(job.model.norm_eps) {}

 protected:
  at::Tensor norm(const at::Tensor& x) const override;

 private:
  double norm_eps_;
};

}  // namespace trireme::models
