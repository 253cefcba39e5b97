// The loss of rows of logits by LibTorch's operators; arguments as ops/cross_entropy.cc has them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trireme::ops::aten {

// Log-sum-exp of each row and its target's logit, [2, rows] in the type of sums; 0 for rows without a
// target, and as logit for a target that is not among classes first .. first + logits.size(1) - 1.
at::Tensor row_stats(const at::Tensor& logits, const at::Tensor& targets, std::int64_t first);

// The sum over rows with a target of log_sums - chosen, a scalar.
at::Tensor total_loss(const at::Tensor& log_sums, const at::Tensor& chosen,
                      const at::Tensor& targets);

// Logits become the gradient of seed * loss; `seed` is a scalar on their device.
void to_gradient(const at::Tensor& logits, const at::Tensor& targets, std::int64_t first,
                 const at::Tensor& log_sums, const at::Tensor& seed);

}  // namespace trireme::ops::aten
