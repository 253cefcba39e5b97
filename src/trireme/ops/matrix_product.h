// Products of activations with weights, in their type with sums in fp32 (fp64 for fp64). Weights in a stored form
// (adapters/stored_weight.h) have their values while the product runs.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/ops/kernels/cpu/matmul.h"

namespace trireme::ops {

// A tensor [rows, columns] of which one stride is 1, as kernels take it.
kernels::Matrix matrix(const at::Tensor& tensor);

// a b, of matrices in any layout.
at::Tensor product(const at::Tensor& a, const at::Tensor& b);
// sum += a b
void accumulate_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum);

// x weight^T + bias, for x [.., in], weight [out, in] and bias [out] or undefined.
at::Tensor affine(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace trireme::ops
