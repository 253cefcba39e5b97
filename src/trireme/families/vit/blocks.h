// Blocks of family vit; families/vit/model.h describes it.
#pragma once

#include "trireme/families/vit/blocks_tower.h"

namespace trireme::blocks {

// Pooling, a linear layer to classes, and the sum of cross-entropies over labelled samples. Inputs: tokens [samples,
// tokens, d] and labels, int64 [samples], ops::kNoTarget for a sample without one. Counts correct answers.
class VitHead : public TowerHead {
 public:
  using TowerHead::TowerHead;
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

  // Pooled feature of each sample, [samples, d], from tokens [samples, tokens, d]; logits [samples, classes].
  at::Tensor feature(const at::Tensor& tokens, const exec::BlockContext& context) const {
    return pooled(tokens, context);
  }
  at::Tensor logits(const at::Tensor& tokens, const exec::BlockContext& context) const;
};

// One a node.
Blocks vit_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks);

}  // namespace trireme::blocks
