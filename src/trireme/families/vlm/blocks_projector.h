// Projection of features to tokens of a decoder; families/vlm/model_projector.h describes it.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/config/job.h"
#include "trireme/model/blocks/blocks.h"

namespace trireme::blocks {

// [tiles, tokens, width] -> [tiles, tile_tokens, config::projected_width], the same on every tp rank. A class token is
// dropped. The tower's norm is applied where the tower is read after its last block; its gain and bias are the first
// parameters.
class Projector : public BoundBlock {
 public:
  // `normed`: whether the tower's norm comes first. `deepstack`: a merger whose norm follows the joining.
  Projector(const config::Job& job, bool normed, std::shared_ptr<const Across> across,
            bool deepstack = false);
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  class Reader;
  at::Tensor merger(const at::Tensor& features, Reader& next) const;
  at::Tensor qformer(const at::Tensor& features, Reader& next) const;
  at::Tensor perceiver(const at::Tensor& features, Reader& next) const;

  config::Projector form_;
  double norm_eps_;
  bool normed_;
  bool class_token_;
  bool deepstack_;
  bool ends_in_queries_;  // without the layer to the decoder's width
  std::int64_t side_;     // features a side of a tile
};

// Features of a grid [tiles, side * side, d] as rows of 2 x 2 of them, the upper two first: [tiles, (side / 2)^2, 4 d].
at::Tensor joined_squares(const at::Tensor& features, std::int64_t side);

}  // namespace trireme::blocks
