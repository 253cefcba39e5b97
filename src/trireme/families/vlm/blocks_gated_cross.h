// Blocks that attend to images; families/vlm/model_gated_cross.h describes them.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/model/blocks/blocks.h"

namespace trireme::blocks {

// x + tanh(attn_gate) * attention(norm(x), rows), then x + tanh(ff_gate) * gelu(norm(x)), each branch between linear
// layers without biases: with gates of 0 it is x, to the bit. A token attends to the tile of projected rows that begins
// at row `visual`; without such a row attention gives 0. Inputs: x [samples, tokens, d]; `visual`, int64 [samples,
// tokens]; rows [tiles, tile_tokens, width].
class GatedCross : public BoundBlock {
 public:
  using BoundBlock::BoundBlock;
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  // Before its gate.
  at::Tensor attended(const at::Tensor& normed, const at::Tensor& visual, const at::Tensor& rows,
                      const ops::WeightGradientsPtr& gradients) const;
  at::Tensor fed(const at::Tensor& normed, const ops::WeightGradientsPtr& gradients) const;
};

}  // namespace trireme::blocks
