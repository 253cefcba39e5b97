// Linear layers, on one rank or shared by tensor-parallel ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "trireme/ops/adapters/adapter.h"
#include "trireme/ops/recomputed.h"
#include "trireme/ops/tensor_parallel.h"
#include "trireme/ops/weight_gradients.h"

namespace trireme::ops {

// x weight^T + bias, and what an adapter adds. x: [.., in]; weight: [out, in]; bias: [out] or undefined. Keeps x if
// weight or adapter trains, and of an adapter its inner rows. Gradients of weight, bias and adapter are added to their
// gradient_target if they have one, or deferred to `gradients`. A frozen parameter has no gradient, and costs no
// product.
at::Tensor linear(const Operand& x, const at::Tensor& weight, const at::Tensor& bias = {},
                  const WeightGradientsPtr& gradients = {}, const Adapter& adapter = {});

// A layer shared by outputs opens a parallel region. Shapes: x as between regions; weight: this rank's rows, [out /
// ranks, in]; bias: [out / ranks] or undefined; result [samples, tokens, out / ranks]. Forward: nothing, or an
// all-gather of shared rows. Backward: an all-reduce of x's gradient, or a reduce-scatter and the all-gather again,
// while weight gradients are computed; deferred, these gather. Keeps x as it comes. The result can be recomputed from
// it, with the gather of forward. Dropout of an adapter counts gathered rows.
Operand column_linear(const Operand& x, const at::Tensor& weight, const at::Tensor& bias,
                      const TensorParallel& tp, const WeightGradientsPtr& gradients = {},
                      Keep result = Keep::kYes, const Adapter& adapter = {});

// Several such layers of one x with one gather and one sum: each has a bias, or none has.
struct Projection {
  at::Tensor weight;
  at::Tensor bias{};
  Adapter adapter{};
};
std::vector<Operand> column_linears(const Operand& x, const std::vector<Projection>& projections,
                                    const TensorParallel& tp,
                                    const WeightGradientsPtr& gradients = {},
                                    Keep results = Keep::kYes);

// A layer shared by inputs closes the region. Shapes: x [samples, tokens, in / ranks]; weight: this rank's columns,
// [out, in / ranks]; result as between regions. `bias`: [out] or undefined, whole on every rank and added once.
// Forward: an all-reduce, or a reduce-scatter into shared rows. Backward: nothing, or an all-gather. Partial sums
// travel in x's type. Where rows are shared, the bias's gradient is of this rank's rows. Deferred, the weight's keeps
// dy as it was gathered: it is gathered once.
at::Tensor row_linear(const Operand& x, const at::Tensor& weight, const at::Tensor& bias,
                      const TensorParallel& tp, const WeightGradientsPtr& gradients = {},
                      const Adapter& adapter = {});

}  // namespace trireme::ops
