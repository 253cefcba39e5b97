#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "trireme/comm/tensor_buffer.h"
#include "trireme/ops/context_attention.h"

namespace trireme::ops {
namespace {

// Keys and values of all tokens in the order of the sequence.
at::Tensor gather(const at::Tensor& kv, comm::Group& group) {
  std::vector<std::int64_t> shape = kv.sizes().vec();
  shape.insert(shape.begin(), group.size());
  const at::Tensor all = at::empty(shape, kv.options());
  group.all_gather(comm::buffer(kv), comm::buffer(all)).wait();
  return unshard_tokens(all.unbind(0), 3);
}

// The sum over all ranks of the part of `dkv`, of all tokens, that is this rank's.
at::Tensor scatter(const at::Tensor& dkv, comm::Group& group) {
  std::vector<std::int64_t> shape = dkv.sizes().vec();
  shape[3] /= group.size();
  const at::Tensor mine = at::empty(shape, dkv.options());
  shape.insert(shape.begin(), group.size());
  const at::Tensor all = at::empty(shape, dkv.options());
  for (int rank = 0; rank < group.size(); ++rank)
    for (const Segment& segment : zigzag_segments(dkv.size(3), rank, group.size()))
      all[rank]
          .narrow(3, segment.row, segment.tokens)
          .copy_(dkv.narrow(3, segment.position, segment.tokens));
  group.reduce_scatter(comm::buffer(all), comm::buffer(mine)).wait();
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
  const at::Tensor kv = gather(travelling(in), *context.group);
  return attention_forward(problem, with_keys(in.q, kv), {{.tokens = problem.sequence}}, out);
}

void gathered_backward(const AttentionProblem& problem, const Qkv& in,
                       const ContextParallel& context, const AttentionRows& rows,
                       const Qkv& grads) {
  // Gathered again, not kept: that would be the keys of all ranks on each.
  const at::Tensor kv = gather(travelling(in), *context.group);
  const at::Tensor dkv = at::zeros(kv.sizes(), rows.log_sums.options());
  attention_backward(problem, with_keys(in.q, kv), {{.tokens = problem.sequence}}, rows,
                     sinks_into({.to = grads.q}, dkv));
  land(scatter(dkv, *context.group), grads);
}

}  // namespace trireme::ops
