// Blocks of V-JEPA 2-AC; families/jepa_ac/model.h describes them.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "trireme/config/job.h"
#include "trireme/model/blocks/blocks.h"

namespace trireme::blocks {

// Time, row and column of the predictor's inputs of `frames` frames, int64 [tokens, 3]. The action and the state of a
// frame have its time, row 0 and column 0, and come before its patches.
at::Tensor action_positions(std::int64_t frames, std::int64_t rows, std::int64_t columns);

// The mean distance of what was predicted of all frames from features of real ones, and of what was rolled out, summed
// over samples by their weights. Inputs: features [samples * frames, patches, hidden]; predictions of frames 1 .., [samples, (frames - 1)
// * patches, hidden]; one frame's of each roll, from frame 2 on; weights [samples].
class ActionLoss : public exec::Block {
 public:
  explicit ActionLoss(std::int64_t frames) : frames_(frames) {}
  void bind(std::vector<at::Tensor>) override {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  std::int64_t frames_;
};

Blocks jepa_ac_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks);

}  // namespace trireme::blocks
