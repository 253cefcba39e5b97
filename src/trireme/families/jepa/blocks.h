// Blocks of V-JEPA 2's pretraining; families/jepa/model.h describes them.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/families/vit/blocks_encoder.h"
#include "trireme/model/blocks/blocks.h"

namespace trireme::blocks {

// Concatenated sequences of visible and predicted tokens: each has its context first, then its targets. From int64
// tokens, or places [rows, 3], and int32 prefix sums of lengths, as model::jepa_spec's inputs are.
struct Packing {
  Packing(const at::Tensor& context, const at::Tensor& context_bounds, const at::Tensor& targets,
          const at::Tensor& target_bounds);

  at::Tensor order;   // of rows, in all contexts followed by all targets
  at::Tensor tokens;  // of rows, or their places
  at::Tensor bounds;  // int32
  at::Tensor target_rows;
  at::Tensor target_masks;    // which mask of its sample a target is of
  at::Tensor target_weights;  // fp64: one by the targets of its sequence and the masks of a sample
};

// The packing that a block's inputs from `first` on are.
using Pack = std::function<Packing(const std::vector<at::Tensor>& inputs, std::size_t first)>;

// How rows of sequences with these bounds see each other, at these places: int64 tokens [rows], or places [rows, 3].
Sight packed_sight(const AxialRotary& rotary, const at::Tensor& bounds);

// Inputs: what the student made of contexts, and those of `pack`. Parameters: weight and bias of a linear layer, and one
// mask token, or one for each mask.
class PredictorEmbed : public BoundBlock {
 public:
  PredictorEmbed(Pack pack, Ranks across) : BoundBlock(std::move(across)), pack_(std::move(pack)) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  static constexpr std::size_t kToken = 2;  // the first mask token among the parameters

  Pack pack_;
};

// A loss of what the predictor made of rows. Parameters: gain and bias of the last norm, weight and bias of the projection
// to hidden.
class PredictionLoss : public BoundBlock {
 public:
  PredictionLoss(double norm_eps, Ranks across)
      : BoundBlock(std::move(across)), norm_eps_(norm_eps) {}

 protected:
  // Distance of rows [rows, predictor] to the teacher's normed features of the targets, [targets, hidden]. It is the
  // sum over samples of the mean over masks of the mean distance.
  at::Tensor distance(const at::Tensor& rows, const Packing& packing, const at::Tensor& wanted,
                      const exec::BlockContext& context) const;

 private:
  double norm_eps_;
};

// Inputs: what the predictor made of rows [rows, predictor], the teacher's features [samples, tokens, hidden], and the
// four of Packing.
class JepaLoss : public PredictionLoss {
 public:
  using PredictionLoss::PredictionLoss;
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;
};

Blocks jepa_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks);

}  // namespace trireme::blocks
