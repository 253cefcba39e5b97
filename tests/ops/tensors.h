// Random tensors and distances between tensors.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <torch/types.h>

#include <algorithm>
#include <vector>

#include "trireme/ops/recomputed.h"

namespace trireme::ops {

using Tensors = std::vector<at::Tensor>;

inline at::Tensor normal(std::vector<std::int64_t> shape, std::uint64_t seed, double scale = 1) {
  return at::empty(shape, at::TensorOptions().dtype(at::kDouble))
      .normal_(0, scale, at::make_generator<at::CPUGeneratorImpl>(seed));
}

inline Tensors values(const std::vector<Operand>& operands) {
  return {operands.begin(), operands.end()};
}

// Relative, but absolute below 1: some gradients are zero.
inline double distance(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor wide = b.to(at::kDouble);
  return (a.to(at::kDouble) - wide).norm().item<double>() /
         std::max(1.0, wide.norm().item<double>());
}

}  // namespace trireme::ops
