// Activations fused with the following linear layer. Backward recomputes the activation in the pass that needs its
// slope, so that only its inputs are kept. Deferred weight gradients keep that activation instead. On several ranks
// they close a region as row_linear does.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/ops/adapters/adapter.h"
#include "trireme/ops/recomputed.h"
#include "trireme/ops/tensor_parallel.h"
#include "trireme/ops/weight_gradients.h"

namespace trireme::ops {

// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) or 0.5 x (1 + erf(x / sqrt(2))) (Hendrycks & Gimpel 2016).
enum class Gelu { kTanh, kExact };

// gelu(x) weight^T + bias. x: [.., in]; weight: [out, in]; bias: [out]. Keeps x.
at::Tensor gelu_linear(const Operand& x, const at::Tensor& weight, const at::Tensor& bias,
                       const TensorParallel& tp = {}, const WeightGradientsPtr& gradients = {},
                       const Adapter& adapter = {}, Gelu kind = Gelu::kTanh);

// Gates of Shazeer (2020): x / (1 + exp(-x)), or gelu's approximation by a tanh.
enum class Gate { kSilu, kGeluTanh };

// (activation(gate) * up) weight^T + bias, if there is one. gate, up: [.., in]. Keeps both.
at::Tensor gated_linear(const Operand& gate, const Operand& up, const at::Tensor& weight,
                        const TensorParallel& tp = {}, const WeightGradientsPtr& gradients = {},
                        const Adapter& adapter = {}, Gate kind = Gate::kSilu,
                        const at::Tensor& bias = {});

}  // namespace trireme::ops
