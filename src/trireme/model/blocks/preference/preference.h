// The loss node of preferences; model/answers.h describes it.
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/blocks/blocks.h"

namespace trireme::blocks {

// The loss of all answers of a micro-batch, compared or rewarded. Where ranks share the tokens of a sequence, every rank
// has what all of them know, and the first one the loss. Inputs: losses of tokens and model::preference_inputs(),
// [samples, tokens].
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
