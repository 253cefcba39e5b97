// The functions of attention_core.h by LibTorch's operators: its flash attention for supported shapes, else scores in
// blocks of rows.
#pragma once

#include "trireme/ops/attention/attention_core.h"

namespace trireme::ops::aten {

at::Tensor attention_forward(const AttentionProblem& problem, const Qkv& in, const Segments& keys,
                             const at::Tensor& out);
void attention_add(const AttentionProblem& problem, const Qkv& in, const Segments& keys,
                   const PartialAttention& partial);
at::Tensor attention_finish(const PartialAttention& partial, const at::Tensor& out);
at::Tensor attention_delta(const at::Tensor& out, const at::Tensor& dout);
void attention_backward(const AttentionProblem& problem, const Qkv& in, const Segments& keys,
                        const AttentionRows& rows, const QkvSinks& sinks);

// Puts a gradient [samples, heads, tokens, width] where it belongs.
void deliver(const GradientSink& sink, const at::Tensor& gradient);

}  // namespace trireme::ops::aten
