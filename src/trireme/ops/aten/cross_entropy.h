// The loss of rows of logits by LibTorch's operators; arguments as ops/cross_entropy.cc has them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trireme::ops::aten {

// Statistics of each row for the loss, [rows] each in the type of sums; 0 for rows without a target.
struct RowStats {
  at::Tensor log_sums;  // log-sum-exp
  at::Tensor chosen;    // the target's logit, 0 where it is not among these classes
};

// Statistics over classes first .. first + logits.size(1) - 1.
RowStats row_stats(const at::Tensor& logits, const at::Tensor& targets, std::int64_t first);

// The sum of the losses of rows with a target, a scalar.
at::Tensor total_loss(const at::Tensor& losses, const at::Tensor& targets);

// Logits become the gradient of the sum of seed * loss over rows; `seeds` are one a row, or a scalar, on their device.
// Those that are capped by cap tanh(z / cap) become the gradient of what was capped.
void to_gradient(const at::Tensor& logits, const at::Tensor& targets, std::int64_t first,
                 const at::Tensor& log_sums, const at::Tensor& seeds, double cap = 0);

}  // namespace trireme::ops::aten
