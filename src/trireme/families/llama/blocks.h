// Llama's embedding and head; its blocks run their layers one by one (layered.h).
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/blocks/blocks.h"
#include "trireme/ops/norm.h"

namespace trireme::blocks {

// [samples, tokens] -> [samples, tokens, d] as between parallel regions (ops/tensor_parallel.h), times a multiplier that
// is rounded to the type of activations.
class LlamaEmbed : public BoundBlock {
 public:
  explicit LlamaEmbed(std::shared_ptr<const Across> across, double multiplier = 1)
      : BoundBlock(std::move(across)), multiplier_(multiplier) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  double multiplier_;
};

class LlamaHead : public LanguageHead {
 public:
  LlamaHead(const config::Model& model, const plan::Node& node,
            std::shared_ptr<const Across> across, const config::Llama& llama = {})
      : LanguageHead(model, node, std::move(across), llama.logits_cap),
        gain_(llama.gains_from_one ? ops::Gain::kFromOne : ops::Gain::kWhole),
        logits_divisor_(llama.logits_divisor) {}

 protected:
  // Rows whose products with the output layer are logits.
  at::Tensor norm(const at::Tensor& x, const ops::WeightGradientsPtr& gradients) const override;

 private:
  ops::Gain gain_;
  double logits_divisor_;
};

// One a node.
Blocks llama_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks);

}  // namespace trireme::blocks
