// GPT-2's blocks; model::gpt_spec describes them.
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/blocks/adapters.h"
#include "trireme/ops/attention/attention.h"

namespace trireme::blocks {

// Token plus position embedding, then dropout: [samples, tokens] -> [samples, tokens, d] as between parallel
// regions (ops/tensor_parallel.h).
class GptEmbed : public BoundBlock {
 public:
  GptEmbed(const config::Model& model, std::shared_ptr<const Across> across)
      : BoundBlock(std::move(across)), dropout_(model.dropout) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  double dropout_;
};

// x + attention(norm(x)), then x + mlp(norm(x)). In training, dropout on probabilities and on what each
// branch adds.
class GptBlock : public AdaptedBlock {
 public:
  // `adapted` as AdaptedBlock's.
  GptBlock(const config::Job& job, const plan::Node& node, std::vector<int> adapted,
           std::shared_ptr<const Across> across)
      : AdaptedBlock(job.lora, std::move(adapted), std::move(across)),
        kept_(node),
        norm_eps_(job.model.norm_eps),
        dropout_(job.model.dropout) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 protected:
  // Attention of queries, keys and values side by side; a second input is positions within documents.
  virtual ops::Operand attend(const at::Tensor& qkv, const ops::AttentionHeads& heads,
                              const std::vector<at::Tensor>& inputs) const;
  ops::Keep keep_attention() const { return kept_.attention; }

 private:
  Kept kept_;
  double norm_eps_;
  double dropout_;
};

class GptHead : public LanguageHead {
 public:
  using LanguageHead::LanguageHead;

 protected:
  at::Tensor norm(const at::Tensor& x, const ops::WeightGradientsPtr& gradients) const override;
};

// One a node.
Blocks gpt_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks);

}  // namespace trireme::blocks
