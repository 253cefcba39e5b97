// Linear layers.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme::ops {

// x weight^T + bias. x: [.., in]; weight: [out, in]; bias: [out] or undefined. Keeps x. Gradients of weight
// and bias are added to their gradient_memory where they have one.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

}  // namespace trireme::ops
