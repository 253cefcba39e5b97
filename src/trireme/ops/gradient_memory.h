// Memory in which gradients of parameters are added up, and whether it holds numbers yet.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/ops/kernels/cpu/matmul.h"

namespace trireme::ops {

// A gradient over the memory of `memory`, for the grad() of a parameter.
at::Tensor lent_gradient(const at::Tensor& memory);

// From here on it counts as zeros, whatever its bytes are. They are zeroed but for a parameter that an op has named to
// adds_in_place(): what that op writes first replaces them.
void begin_gradient(const at::Tensor& gradient);
// After the backward that began it, it is numbers: zeroed if nothing has come. Throws if autograd has added to what still
// waits for an op: where operators of LibTorch use such a parameter too, the op is part of every backward.
void settle_gradient(const at::Tensor& gradient);

// What an op says in its forward of a parameter whose gradient it will add to its gradient_memory() as a whole.
void adds_in_place(const at::Tensor& param);

// Where the gradient of a parameter is added up in place.
struct GradientMemory {
  at::Tensor sum;                            // undefined: autograd adds what the op returns
  kernels::Into into = kernels::Into::kAdd;  // kReplace: what is in `sum` counts as zeros

  bool defined() const { return sum.defined(); }
  void add(const at::Tensor& gradient) const;
  // The sum with zeros in it where it counts as them, for who adds to parts of it.
  const at::Tensor& settled() const;
};

// That of a leaf whose grad() is contiguous and in the type of sums, fp32 (fp64 for fp64), or in the leaf's own; else
// undefined. It counts as written from here on: the caller writes all of it at once.
GradientMemory gradient_memory(const at::Tensor& param);

}  // namespace trireme::ops
