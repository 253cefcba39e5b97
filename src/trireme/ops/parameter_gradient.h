// Gradients of parameters, added where they are kept, now or later.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/ops/tensor_parallel.h"
#include "trireme/ops/weight_gradients.h"

namespace trireme::ops {

// Adds to a leaf's grad() what an op would have returned, as autograd does; nothing if it is undefined.
void add_gradient(const at::Tensor& param, const at::Tensor& gradient);

// The next functions return the gradient of a parameter for autograd. Undefined for a frozen one, if it was added to
// gradient_target, and where `gradients` defers it.

// Gradient of `weight`, [out, in]: dy^T x with dy [rows, out], x [rows, in]. A sum in gradient_target(weight) is
// rounded to no other type than that one's. Deferred, keeps dy and x.
at::Tensor weight_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                           const WeightGradientsPtr& gradients = {});

// sum += a b and sum += a^T b, or only the product, for contiguous matrices; sum is in the type of sums or in theirs.
void add_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum);
void add_transposed_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum,
                            kernels::Into into = kernels::Into::kAdd);

// `sum` itself, in the type of sums and the shape of `param`; rounded if it is returned. Deferred, keeps a copy.
at::Tensor deliver_gradient(const at::Tensor& param, const at::Tensor& sum,
                            const WeightGradientsPtr& gradients = {});

// Kept data of a deferred bias gradient: rows that its weight's keeps anyway, or their sum. A row-parallel layer's
// weight keeps gathered rows.
enum class BiasKeeps { kRows, kSum };
inline BiasKeeps row_bias_keeps(const TensorParallel& tp) {
  return tp.shares_rows() ? BiasKeeps::kSum : BiasKeeps::kRows;
}

// Gradient of `bias`, [out]: the sum of dy's rows, over fixed chunks of rows so that it does not depend on
// threads.
at::Tensor bias_gradient(const at::Tensor& dy, const at::Tensor& bias,
                         const WeightGradientsPtr& gradients = {},
                         BiasKeeps keeps = BiasKeeps::kRows);

}  // namespace trireme::ops
