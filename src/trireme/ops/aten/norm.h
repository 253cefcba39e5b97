// Norms over the last dim by LibTorch's operators.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme::ops::aten {

struct Normed {
  at::Tensor normed;
  at::Tensor mean;   // of each row; undefined for an RMS norm
  at::Tensor scale;  // 1 over the root of the mean square
};

// layer_norm, or rms_norm where `bias` is undefined; `normed` has the gain's type. `offset` is added to every gain of an
// RMS norm.
Normed norm(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias, double eps,
            double offset);

struct NormGradients {
  at::Tensor x;
  at::Tensor gain;  // in the type of x or of sums
  at::Tensor bias;
};
NormGradients norm_backward(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias,
                            const at::Tensor& mean, const at::Tensor& scale, const at::Tensor& dy,
                            double offset);

}  // namespace trireme::ops::aten
