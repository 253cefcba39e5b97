// The output layer and its loss in one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trireme::ops {

inline constexpr std::int64_t kNoTarget = -100;

// Sum over rows with a target of -log softmax(x weight^T)[target], a scalar in fp32 (fp64 for fp64).
// x: [.., d]; weight: [vocab, d]; targets: int64 of x's leading shape, kNoTarget where there is none.
// Softmax and sum are fp32 (fp64) whatever the type. The logits' memory becomes their gradient: keeps x
// and [rows, vocab] of x's type. Throws Error{kData} for a target outside [0, vocab).
at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& targets);

}  // namespace trireme::ops
