#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <optional>
#include <utility>

#include "trireme/ops/attention/context_attention.h"
#include "trireme/ops/attention/ring.h"
#include "trireme/ops/dispatch.h"

namespace trireme::ops {

at::Tensor ring_forward(const AttentionProblem& problem, const Qkv& in,
                        const ContextParallel& context, const at::Tensor& out) {
  const Ring ring(*context.ring(), context.lane);
  const PartialAttention partial = no_attention(in.q);
  at::Tensor kv = travelling(in), next = at::empty_like(kv);
  for (int step = 0; step < ring.size(); ++step) {
    const bool last = step + 1 == ring.size();
    Shift shift = last ? Shift() : ring.start(kv, next);
    attention_add(problem, with_keys(in.q, kv), token_segments(context.layout, ring.owner(step)),
                  partial);
    shift.wait();
    std::swap(kv, next);
  }
  return attention_finish(partial, out);
}

void ring_backward(const AttentionProblem& problem, const Qkv& in, const ContextParallel& context,
                   const AttentionRows& rows, const Qkv& grads) {
  const Ring ring(*context.ring(), context.lane);
  at::Tensor kv = travelling(in), next = at::empty_like(kv);
  // Gradients of the keys at hand, of those passed on, and of those that others have added to.
  at::Tensor dkv = at::empty(kv.sizes(), rows.log_sums.options());
  at::Tensor leaving = at::empty_like(dkv), arriving = at::empty_like(dkv);
  const at::Tensor dq = at::zeros(in.q.sizes(), rows.log_sums.options());
  std::optional<Shift> gradients;
  for (int step = 0; step < ring.size(); ++step) {
    const bool last = step + 1 == ring.size();
    Shift shift = last ? Shift() : ring.start(kv, next);
    dkv.zero_();
    attention_backward(problem, with_keys(in.q, kv),
                       token_segments(context.layout, ring.owner(step)), rows,
                       sinks_into({.to = dq, .add = true}, dkv));
    if (gradients) {
      gradients->wait();
      dkv.add_(arriving);
    }
    std::swap(dkv, leaving);
    gradients.emplace(ring.start(leaving, arriving));
    shift.wait();
    std::swap(kv, next);
  }
  gradients->wait();
  grads.q.copy_(dq);
  land(arriving, grads);
}

}  // namespace trireme::ops
