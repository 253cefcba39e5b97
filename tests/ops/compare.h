// An op's results against those of a formula.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "tests/ops/tensors.h"
#include "trireme/base/cpu.h"

namespace trireme::ops {

// LibTorch's operators, which stand in for a GPU's here, round in more places than our kernels: how many times our
// tolerances they may be off.
inline double roundings() { return has_own_loops() ? 1 : 4; }

using Op = std::function<at::Tensor(const Tensors&)>;

// The result of `op` and the gradients of all inputs for a fixed random output gradient.
inline Tensors results(const Op& op, const Tensors& inputs, at::ScalarType type) {
  Tensors leaves;
  for (const at::Tensor& input : inputs)
    leaves.push_back(input.to(type).detach().requires_grad_(true));
  const at::Tensor out = op(leaves);
  out.backward(normal(out.sizes().vec(), 99).to(out.scalar_type()));
  Tensors all = {out.detach()};
  for (const at::Tensor& leaf : leaves) all.push_back(leaf.grad());
  return all;
}

// fp64 to rounding, fp32, bf16 and fp16 to theirs, on inputs that bf16 holds; and the same bits again.
inline void expect_equal(const Op& op, const Op& formula, const Tensors& inputs,
                         double bf16_tolerance = 8e-3) {
  Tensors exact;
  for (const at::Tensor& input : inputs) exact.push_back(input.to(at::kBFloat16).to(at::kDouble));
  const Tensors expected = results(formula, exact, at::kDouble);
  std::vector<std::pair<at::ScalarType, double>> types = {
      {at::kDouble, 1e-13}, {at::kFloat, 2e-6}, {at::kBFloat16, bf16_tolerance}};
  if (has_own_loops())
    types.emplace_back(at::kHalf,
                       bf16_tolerance / 6);  // three bits more; LibTorch has it on GPUs only
  for (const auto& [type, tolerance] : types) {
    const Tensors actual = results(op, exact, type);
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i)
      EXPECT_LT(distance(actual[i], expected[i]), roundings() * tolerance)
          << "result " << i << " in " << type;
    const Tensors again = results(op, exact, type);
    for (std::size_t i = 0; i < actual.size(); ++i)
      EXPECT_TRUE(at::equal(actual[i], again[i])) << i;
  }
}

}  // namespace trireme::ops
