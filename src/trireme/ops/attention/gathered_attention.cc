#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "trireme/comm/tensor_buffer.h"
#include "trireme/ops/attention/context_attention.h"
#include "trireme/ops/rows.h"

namespace trireme::ops {
namespace {

// Calls f with the rows of each rank's part and their place among all tokens.
template <typename F>
void each_segment(const mesh::TokenLayout& layout, const RankParts& parts, F f) {
  for (int rank = 0; rank < layout.ranks(); ++rank)
    for (const Segment& segment : token_segments(layout, rank))
      f(parts.of(rank).narrow(3, segment.row, segment.tokens), segment);
}

// Memory for keys and values of all tokens, rank by rank.
RankParts by_rank(const at::Tensor& like, const mesh::TokenLayout& layout) {
  std::vector<std::int64_t> lengths;
  for (int rank = 0; rank < layout.ranks(); ++rank) lengths.push_back(layout.tokens_of(rank));
  return {like, 3, lengths};
}

// Keys and values of all tokens in the order of the sequence.
at::Tensor gather(const at::Tensor& kv, const ContextParallel& context) {
  const RankParts all = by_rank(kv, context.layout);
  context.group->all_gather_v(comm::buffer(kv), comm::buffer(all.memory()), all.counts()).wait();
  std::vector<std::int64_t> shape = kv.sizes().vec();
  shape[3] = context.layout.tokens;
  const at::Tensor whole = at::empty(shape, kv.options());
  each_segment(context.layout, all, [&](const at::Tensor& part, const Segment& segment) {
    whole.narrow(3, segment.position, segment.tokens).copy_(part);
  });
  return whole;
}

// The sum over all ranks of the part of `dkv`, of all tokens, that is this rank's.
at::Tensor scatter(const at::Tensor& dkv, const ContextParallel& context) {
  const RankParts all = by_rank(dkv, context.layout);
  each_segment(context.layout, all, [&](const at::Tensor& part, const Segment& segment) {
    part.copy_(dkv.narrow(3, segment.position, segment.tokens));
  });
  const at::Tensor mine = at::empty(all.of(context.rank()).sizes(), dkv.options());
  context.group->reduce_scatter_v(comm::buffer(all.memory()), comm::buffer(mine), all.counts())
      .wait();
  return mine;
}

}  // namespace

at::Tensor travelling(const Qkv& in) {
  const at::Tensor& k = in.k;
  const at::Tensor kv = at::empty({2, k.size(0), k.size(2), k.size(1), k.size(3)}, k.options());
  kv.select(0, 0).copy_(in.k.transpose(1, 2));
  kv.select(0, 1).copy_(in.v.transpose(1, 2));
  return kv;
}

Qkv with_keys(const at::Tensor& q, const at::Tensor& kv) {
  return {.q = q, .k = kv.select(0, 0).transpose(1, 2), .v = kv.select(0, 1).transpose(1, 2)};
}

QkvSinks sinks_into(const GradientSink& dq, const at::Tensor& dkv) {
  return {.dq = dq,
          .dk = {.to = dkv.select(0, 0).transpose(1, 2), .add = true},
          .dv = {.to = dkv.select(0, 1).transpose(1, 2), .add = true}};
}

void land(const at::Tensor& dkv, const Qkv& grads) {
  grads.k.copy_(dkv.select(0, 0).transpose(1, 2));
  grads.v.copy_(dkv.select(0, 1).transpose(1, 2));
}

at::Tensor gathered_forward(const AttentionProblem& problem, const Qkv& in,
                            const ContextParallel& context, const at::Tensor& out) {
  const at::Tensor kv = gather(travelling(in), context);
  return attention_forward(problem, with_keys(in.q, kv), {{.tokens = problem.sequence}}, out);
}

void gathered_backward(const AttentionProblem& problem, const Qkv& in,
                       const ContextParallel& context, const AttentionRows& rows,
                       const Qkv& grads) {
  // Gathered again, not kept: that would be the keys of all ranks on each.
  const at::Tensor kv = gather(travelling(in), context);
  const at::Tensor dkv = at::zeros(kv.sizes(), rows.log_sums.options());
  attention_backward(problem, with_keys(in.q, kv), {{.tokens = problem.sequence}}, rows,
                     sinks_into({.to = grads.q}, dkv));
  land(scatter(dkv, context), grads);
}

}  // namespace trireme::ops
