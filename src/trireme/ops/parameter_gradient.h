// Gradients of parameters, added where they are kept.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme::ops {

// The grad() of a leaf if an op may add to it in place: contiguous and in the type of sums, fp32 (fp64 for
// fp64). Undefined otherwise: then autograd adds what the op returns.
at::Tensor gradient_memory(const at::Tensor& param);

// Gradient of `weight`, [out, in]: dy^T x with dy [rows, out], x [rows, in]. Undefined if it was added to
// gradient_memory(weight), where sums are never rounded to the weight's type.
at::Tensor weight_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight);

// sum += a b and sum += a^T b, for contiguous matrices; sum is in the type of sums.
void add_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum);
void add_transposed_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum);

// `sum` itself, in the type of sums and the shape of `param`, if autograd is to add it, rounded; undefined if
// it was added to gradient_memory(param).
at::Tensor deliver_gradient(const at::Tensor& param, const at::Tensor& sum);

// Gradient of `bias`, [out]: the sum of dy's rows, over fixed chunks of rows so that it does not depend on
// threads. Undefined if it was added to gradient_memory(bias).
at::Tensor bias_gradient(const at::Tensor& dy, const at::Tensor& bias);

}  // namespace trireme::ops
