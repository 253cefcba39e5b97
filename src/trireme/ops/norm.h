// Norms over the last dim.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/ops/recomputed.h"
#include "trireme/ops/weight_gradients.h"

namespace trireme::ops {

// (x - mean) / sqrt(variance + eps) * gain + bias (Ba et al. 2016). x: [.., d]; gain, bias: [d] of x's type. Statistics
// and sums are fp32 (fp64 for fp64), those of gradients too. Keeps x and two numbers a row. Deferred gradients of gain
// and bias are computed all the same and only added later.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias,
                      double eps, const WeightGradientsPtr& gradients = {});

// What an RMS norm multiplies by: its gain, or 1 + gain (Gemma), added in the type of sums.
enum class Gain { kWhole, kFromOne };

// x / sqrt(mean of squares + eps) * gain (Zhang & Sennrich 2019). x may be in the type of sums, such as a residual
// stream in fp32 with a gain in bf16. The result has the gain's type. Keeps x and one number a row.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& gain, double eps,
                    const WeightGradientsPtr& gradients = {}, Gain factor = Gain::kWhole);

// A residual stream and its normed copy for the next branch.
struct Branching {
  at::Tensor stream;
  Operand normed;
};

// stream = x + branch in x's type, rounded once, or x itself where `branch` is undefined; normed = layer_norm(stream),
// or rms_norm where `bias` is undefined. One pass each way: backward adds the stream's gradient to the norm's. The
// stream is kept; `normed` can be recomputed from it.
Branching residual_norm(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& gain,
                        const at::Tensor& bias, double eps,
                        const WeightGradientsPtr& gradients = {}, Keep normed = Keep::kYes,
                        Gain factor = Gain::kWhole);

}  // namespace trireme::ops
