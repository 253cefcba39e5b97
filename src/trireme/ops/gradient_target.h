// GradientTarget: where a backward adds up the gradient of one parameter, and whether that holds numbers yet.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/ops/kernels/cpu/matmul.h"

namespace trireme::ops {

struct GradientTarget {
  at::Tensor sum;                            // undefined: autograd adds what the op returns
  kernels::Into into = kernels::Into::kAdd;  // kReplace: what is in `sum` counts as zeros

  bool defined() const { return sum.defined(); }
  void add(const at::Tensor& gradient) const;
};

// The grad() of a leaf, if ops may add to it: it is contiguous and in the type of sums, fp32 (fp64 for fp64), or in the
// leaf's own. Else undefined.
at::Tensor gradient_sum(const at::Tensor& param);

}  // namespace trireme::ops
