// Norms over the last dim.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme::ops {

// (x - mean) / sqrt(variance + eps) * gain + bias (Ba et al. 2016). x: [.., d]; gain, bias: [d] of x's
// type. Statistics and the sums behind gradients are fp32 (fp64 for fp64). Keeps x and two numbers a row.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias,
                      double eps);

// x / sqrt(mean of squares + eps) * gain (Zhang & Sennrich 2019). Keeps x and one number a row.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& gain, double eps);

}  // namespace trireme::ops
