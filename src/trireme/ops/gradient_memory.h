// Memory in which gradients of parameters are added up, and whether it holds numbers yet.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/ops/kernels/cpu/matmul.h"

namespace trireme::ops {

// A gradient for param.grad() over the memory of `memory`, which need not be zeroed before it is added to: after
// forget() it counts as zeros, whatever is in its bytes, until the first op writes there. Ops of this room and autograd's
// own sums know it. Between forget() and settle() nothing else may read it or add to it.
at::Tensor lent_gradient(const at::Tensor& memory);
// Makes it the leaf's grad().
void lend_gradient(const at::Tensor& param, const at::Tensor& gradient);
void forget(const at::Tensor& gradient);
// Zeroes it if nothing has come since forget(); nothing to do for a tensor that is not lent_gradient's.
void settle(const at::Tensor& gradient);

// Where the gradient of a parameter is added up in place.
struct GradientMemory {
  at::Tensor sum;  // undefined: autograd adds what the op returns
  kernels::Into into = kernels::Into::kAdd;  // kReplace: what is in `sum` counts as zeros

  bool defined() const { return sum.defined(); }
  void add(const at::Tensor& gradient) const;
  // The sum with zeros in it where it counts as them.
  const at::Tensor& settled() const;
};

// That of a leaf whose grad() is contiguous and in the type of sums, fp32 (fp64 for fp64), or in the leaf's own; else
// undefined. It counts as written from here on: the caller does so at once, everywhere.
GradientMemory gradient_memory(const at::Tensor& param);

}  // namespace trireme::ops
