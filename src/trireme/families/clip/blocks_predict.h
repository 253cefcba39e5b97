// Results of a trained model for a picture, a caption or a clip: classes, scores and embeddings.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>
#include <vector>

#include "trireme/exec/block.h"

namespace trireme::blocks {

// A program's inputs in their order. Those that the value asked for does not need may be undefined.
using PartialInputs = std::vector<at::Tensor>;

// Class logits of pictures, [pictures, classes]. The model is of family vit.
at::Tensor class_logits(const exec::Model& model, const PartialInputs& inputs);

// Features of pictures and of captions, [samples, width], of a model of family clip.
at::Tensor picture_features(const exec::Model& model, const PartialInputs& inputs);
at::Tensor caption_features(const exec::Model& model, const PartialInputs& inputs);
// Probability that a caption belongs to a picture, [pictures, captions]: of clip among these captions, of siglip each by
// itself.
at::Tensor caption_chances(const exec::Model& model, const at::Tensor& pictures,
                           const at::Tensor& captions);

// One vector for all inputs, [width], in fp32 or fp64. Family vit gives the pooled feature, clip the picture's, and
// others with a vision tower the mean of the tower's last rows. Error{kUsage} for a model without one.
at::Tensor embedding(const exec::Model& model, const PartialInputs& inputs);

}  // namespace trireme::blocks
