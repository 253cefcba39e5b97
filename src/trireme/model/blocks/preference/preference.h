// The loss node of preferences; model/answers.h describes it.
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/blocks/blocks.h"

namespace trireme::blocks {

// The loss of all comparisons of a micro-batch. Where ranks share the tokens of a sequence, every rank has what all of
// them know, and the first one the loss. Inputs: losses of tokens, codes of answers and log-probabilities of the
// reference, [samples, tokens].
class PreferenceLoss : public BoundBlock {
 public:
  PreferenceLoss(const config::Preference& preference, std::shared_ptr<const Across> across)
      : BoundBlock(std::move(across)), preference_(preference) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  config::Preference preference_;
};

}  // namespace trireme::blocks
