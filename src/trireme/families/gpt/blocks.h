// GPT-2's embedding and head; its blocks run their layers one by one (layered.h).
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/blocks/blocks.h"

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

class GptHead : public LanguageHead {
 public:
  using LanguageHead::LanguageHead;

 protected:
  at::Tensor norm(const at::Tensor& x, const ops::WeightGradientsPtr& gradients) const override;
};

// One a node.
Blocks gpt_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks);

}  // namespace trireme::blocks
