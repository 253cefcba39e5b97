// Activations fused with the following linear layer. Backward recomputes the activation in the pass that needs its
// slope, so that only its inputs are kept. Deferred weight gradients keep that activation instead. On several ranks
// they close a region as row_linear does.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/ops/adapter.h"
#include "trireme/ops/recomputed.h"
#include "trireme/ops/tensor_parallel.h"
#include "trireme/ops/weight_gradients.h"

namespace trireme::ops {

// gelu(x) weight^T + bias with gelu(x) = 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (Hendrycks & Gimpel
// 2016). x: [.., in]; weight: [out, in]; bias: [out]. Keeps x.
at::Tensor gelu_linear(const Operand& x, const at::Tensor& weight, const at::Tensor& bias,
                       const TensorParallel& tp = {}, const WeightGradientsPtr& gradients = {},
                       const Adapter& adapter = {});

// (silu(gate) * up) weight^T (Shazeer 2020). gate, up: [.., in]. Keeps both.
at::Tensor swiglu_linear(const Operand& gate, const Operand& up, const at::Tensor& weight,
                         const TensorParallel& tp = {}, const WeightGradientsPtr& gradients = {},
                         const Adapter& adapter = {});

}  // namespace trireme::ops
