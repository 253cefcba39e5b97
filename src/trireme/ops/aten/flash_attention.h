// LibTorch's fused attention on CUDA (Dao 2023), where this version has it.
#pragma once

#include "trireme/ops/attention/attention_core.h"

namespace trireme::ops::aten {

// Whether it computes this piece: a whole causal or full attention without documents and noise, in half precision.
bool has_flash_attention(const AttentionProblem& problem, const Qkv& in, const Segments& keys);

// As attention_core.h has them, for pieces that it computes.
at::Tensor flash_attention_forward(const AttentionProblem& problem, const Qkv& in,
                                   const at::Tensor& out);
void flash_attention_backward(const AttentionProblem& problem, const Qkv& in,
                              const AttentionRows& rows, const QkvSinks& sinks);

}  // namespace trireme::ops::aten
