// What turns features into tokens of a decoder; arch/projector.h describes it.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/config/job.h"
#include "trireme/models/blocks.h"

namespace trireme::models {

// [tiles, tokens, width] -> [tiles, tile_tokens, hidden], the same on every tp rank. A class token is dropped, and the
// tower's norm is applied where the tower is read behind its last block; its gain and bias are the first parameters.
class Projector : public BoundBlock {
 public:
  // `normed`: whether the tower's norm comes first.
  Projector(const config::Job& job, bool normed, std::shared_ptr<const Across> across);
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  class Reader;
  at::Tensor qformer(const at::Tensor& features, Reader& next) const;
  at::Tensor perceiver(const at::Tensor& features, Reader& next) const;

  config::Projector form_;
  double norm_eps_;
  bool normed_;
  bool class_token_;
};

}  // namespace trireme::models
