// Attention of a rank's queries with keys and values in its memory. All context-parallel methods end here, and another
// device would need only another version of this.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "trireme/ops/attention/attention.h"

namespace trireme::ops {

// Tensors here are [samples, tokens, heads, width] in any layout whose last dim is dense.
struct Qkv {
  at::Tensor q, k, v;
};

// Settings shared by all segments of one attention.
struct AttentionProblem {
  AttentionHeads heads;  // resolved
  Mask mask;
  std::int64_t sequence = 0;  // tokens of all ranks
  Segments queries;           // rows of q
};

// Fills `out` and returns the log-sum-exp of the scores of every row, [samples, heads, tokens] in the type of sums;
// -inf for a row without keys.
at::Tensor attention_forward(const AttentionProblem& problem, const Qkv& in, const Segments& keys,
                             const at::Tensor& out);

// The same segment by segment: attention over the keys so far, in the type of sums.
struct PartialAttention {
  at::Tensor sum;   // [samples, heads, tokens, width], of e^(score - top) v
  at::Tensor tops;  // [samples, heads, tokens], the largest scores so far
  at::Tensor sums;  // the same, of e^(score - top)
};
PartialAttention no_attention(const at::Tensor& q);
void attention_add(const AttentionProblem& problem, const Qkv& in, const Segments& keys,
                   const PartialAttention& partial);
// Fills `out`, returns log-sum-exps as above.
at::Tensor attention_finish(const PartialAttention& partial, const at::Tensor& out);

// Backward's data about the rows of queries, independent of the keys.
struct AttentionRows {
  at::Tensor out;
  at::Tensor log_sums;  // of forward, over all keys
  at::Tensor delta;     // the same shape: sum over the row of out * dout
  at::Tensor dout;
};
AttentionRows attention_rows(const at::Tensor& log_sums, const at::Tensor& out,
                             const at::Tensor& dout);

// Where a gradient goes: overwritten and rounded to its type, or added to in the type of sums.
struct GradientSink {
  at::Tensor to;
  bool add = false;
};
struct QkvSinks {
  GradientSink dq, dk, dv;
};
// The share of these keys in the gradients. dk and dv are both added to or both overwritten.
void attention_backward(const AttentionProblem& problem, const Qkv& in, const Segments& keys,
                        const AttentionRows& rows, const QkvSinks& sinks);

}  // namespace trireme::ops
