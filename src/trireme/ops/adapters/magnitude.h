// Trained magnitudes of the rows of a linear layer's weight (DoRA, Liu et al. 2024).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "trireme/ops/adapters/adapter.h"
#include "trireme/ops/recomputed.h"
#include "trireme/ops/tensor_parallel.h"
#include "trireme/ops/weight_gradients.h"

namespace trireme::ops {

// Norms of the rows of weight + scale up down, [out], in the type of sums and without a gradient. Weight [out, in] and
// the adapter's matrices are this rank's; ranks of `tp`, if it has several, add up their squares.
at::Tensor row_norms(const at::Tensor& weight, const Adapter& adapter, const TensorParallel& tp);

struct Magnitude {
  at::Tensor values;  // [out]
  at::Tensor norms;   // [out], as row_norms
  at::Tensor bias{};  // [out], or undefined
  // Rows of x, flattened, that get the bias: those after are padding. -1: all.
  std::int64_t rows = -1;
};

// x * values / norms + bias for x [.., out], in the type of sums, rounded once to x's. Keeps x and the norms. Gradients of
// values and bias are added or deferred as deliver_gradient does. The result can be recomputed from x.
Operand scaled(const Operand& x, const Magnitude& magnitude,
               const WeightGradientsPtr& gradients = {}, Keep result = Keep::kYes);

}  // namespace trireme::ops
