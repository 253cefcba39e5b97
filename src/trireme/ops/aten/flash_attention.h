// LibTorch's fused attention on CUDA (Dao 2023), where this version has it.
#pragma once

#include "trireme/ops/attention/attention_core.h"

namespace trireme::ops::aten {

// Whether it supports this segment: a whole causal or full attention without documents, noise and cap, in half precision.
bool has_flash_attention(const AttentionProblem& problem, const Qkv& in, const Segments& keys);

// As in attention_core.h, for supported segments.
at::Tensor flash_attention_forward(const AttentionProblem& problem, const Qkv& in,
                                   const at::Tensor& out);
void flash_attention_backward(const AttentionProblem& problem, const Qkv& in,
                              const AttentionRows& rows, const QkvSinks& sinks);

}  // namespace trireme::ops::aten
