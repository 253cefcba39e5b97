// Attention whose keys lie on several ranks: each of these does what attention_core.h does for keys of one. Collective.
#pragma once

#include "trireme/ops/attention/attention_core.h"

namespace trireme::ops {

// Fills `out`; returns the log-sum-exps of this rank's rows. Every rank has `in.k` and `in.v` of its own tokens.
at::Tensor ring_forward(const AttentionProblem& problem, const Qkv& in,
                        const ContextParallel& context, const at::Tensor& out);
at::Tensor gathered_forward(const AttentionProblem& problem, const Qkv& in,
                            const ContextParallel& context, const at::Tensor& out);

// Overwrite `grads`, the gradients of `in`. Those of keys and values are added over the ranks, and travel, in the type
// of sums.
void ring_backward(const AttentionProblem& problem, const Qkv& in, const ContextParallel& context,
                   const AttentionRows& rows, const Qkv& grads);
void gathered_backward(const AttentionProblem& problem, const Qkv& in,
                       const ContextParallel& context, const AttentionRows& rows, const Qkv& grads);

// k and v as they travel, [2, samples, heads, tokens, width]: a head's rows follow each other.
at::Tensor travelling(const Qkv& in);
// q with these keys and values.
Qkv with_keys(const at::Tensor& q, const at::Tensor& kv);
// Sinks of dk and dv that add to a tensor of that form.
QkvSinks sinks_into(const GradientSink& dq, const at::Tensor& dkv);
// Rounds a tensor of that form into dk and dv.
void land(const at::Tensor& dkv, const Qkv& grads);

}  // namespace trireme::ops
