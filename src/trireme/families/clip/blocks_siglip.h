// SigLIP's loss over data-parallel ranks, captions going round (Zhai et al. 2023, section 3.3).
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/comm/group.h"

namespace trireme::blocks {

struct SiglipResult {
  at::Tensor loss;  // -log sigmoid(y (exp(s) x t^T + b)), summed over pairs of an image here
  std::int64_t nearest_own =
      0;  // images here whose own caption is the nearest of all, of equals the first
};

// Marks of the captions of samples that only fill up a batch, bool [rows]: features of 0 (TextFeatures).
at::Tensor absent(const at::Tensor& captions);

// Loss of the images here against the captions of all ranks of `group`, or of this one where it is null. y is 1 for an
// image and the caption in its row of the same rank, and else -1. Pairs with the row or column of an absent caption do
// not count. Captions pass from rank to rank and with them their gradients, so that a rank holds the pairs of two
// ranks' rows at a time. Forward is collective and computes the gradients too, where they are needed; backward does
// neither. Shapes: images, captions [rows, width] of length 1, equally many on every rank; scale (the s) and bias [1].
SiglipResult siglip_loss(const at::Tensor& images, const at::Tensor& captions,
                         const at::Tensor& scale, const at::Tensor& bias, comm::Group* group);

}  // namespace trireme::blocks
