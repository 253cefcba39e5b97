// Blocks of V-JEPA 2's pretraining; arch/jepa.h describes them.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "trireme/config/job.h"
#include "trireme/models/blocks.h"

namespace trireme::models {

// Sequences of what is seen and what is to be predicted, one behind the other: each has its context first, then its
// targets. From int64 tokens and int32 prefix sums of lengths, as arch::jepa_spec's inputs are.
struct Packing {
  Packing(const at::Tensor& context, const at::Tensor& context_bounds, const at::Tensor& targets,
          const at::Tensor& target_bounds);

  at::Tensor order;   // of rows, in all contexts followed by all targets
  at::Tensor tokens;  // of rows
  at::Tensor bounds;  // int32
  at::Tensor target_rows;
  at::Tensor target_masks;    // which mask of its sample a target is of
  at::Tensor target_weights;  // fp64: one by the targets of its sequence and the masks of a sample
};

// Inputs: what the predictor made of rows [rows, predictor], the teacher's features [samples, tokens, hidden], and the
// four of Packing. Parameters: gain and bias of the last norm, weight and bias of the projection to hidden.
class JepaLoss : public BoundBlock {
 public:
  JepaLoss(double norm_eps, Ranks across) : BoundBlock(std::move(across)), norm_eps_(norm_eps) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  double norm_eps_;
};

Blocks jepa_blocks(const config::Job& job, const arch::ModelSpec& spec, const Ranks& ranks);

}  // namespace trireme::models
