// The output layer and its loss in one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "trireme/ops/tensor_parallel.h"
#include "trireme/ops/weight_gradients.h"

namespace trireme::ops {

inline constexpr std::int64_t kNoTarget = -100;

// Logits in backward: kept, in memory that becomes their gradient, or recomputed, with one product more and no [rows,
// vocab]. Either way for kLogitColumns tokens of the vocabulary at a time, with the same bits.
enum class Logits { kKept, kRecomputed };
inline constexpr std::int64_t kLogitColumns = 8192;

// Sum over rows with a target of -log softmax(x weight^T)[target], a scalar in fp32 (fp64 for fp64). Shapes: x [.., d];
// weight [vocab, d]; targets int64 of x's leading shape, kNoTarget for a row without one. Softmax and sum are fp32
// (fp64) whatever the type. Keeps a number a row, the logits in x's type, and x, except for a frozen weight whose
// logits are kept. Throws Error{kData} for a target outside [0, vocab).
//
// On several ranks each has rows first_row .. of the weight, the last rank the last, x as between parallel regions, and
// all targets. All ranks get the same loss. Two numbers a row travel forward; x as in column_linear().
//
// With a `cap` above 0 logits z become cap tanh(z / cap) before all else (Gemma 2), rounded once to x's type, of which
// backward keeps as much as of others.
//
// A deferred weight gradient keeps x and the logits' gradient; with recomputed logits none can be deferred.
at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& targets, std::int64_t first_row = 0,
                                const TensorParallel& tp = {}, Logits logits = Logits::kKept,
                                const WeightGradientsPtr& gradients = {}, double cap = 0);

// The same of each row without the sum, in targets' shape; 0 for a row without a target.
at::Tensor linear_token_losses(const at::Tensor& x, const at::Tensor& weight,
                               const at::Tensor& targets, std::int64_t first_row = 0,
                               const TensorParallel& tp = {}, Logits logits = Logits::kKept,
                               const WeightGradientsPtr& gradients = {}, double cap = 0);

}  // namespace trireme::ops
