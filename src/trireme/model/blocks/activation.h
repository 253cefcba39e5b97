// Activations of feed-forward layers.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/config/sections/activation.h"
#include "trireme/ops/feed_forward.h"

namespace trireme::blocks {

at::Tensor activated(const at::Tensor& x, config::Activation activation);

// The activation that an op computes together with the linear layer after it. Others are a bug.
ops::Gelu gelu_of(config::Activation activation);

// An activation and the layer that closes a parallel region. Shape of x: [samples, tokens, in / ranks].
at::Tensor activated_linear(const at::Tensor& x, config::Activation activation,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const ops::TensorParallel& tp,
                            const ops::WeightGradientsPtr& gradients);

}  // namespace trireme::blocks
