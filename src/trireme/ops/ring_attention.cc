#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <optional>
#include <utility>

#include "trireme/comm/tensor_buffer.h"
#include "trireme/ops/context_attention.h"
#include "trireme/ops/dispatch.h"
#include "trireme/ops/regions.h"

namespace trireme::ops {
namespace {

// A message to the next rank and one from the previous, under way.
struct Shift {
  Pending sent = Pending(), received = Pending();
  void wait() {
    sent.wait();
    received.wait();
  }
};

class Ring {
 public:
  explicit Ring(const ContextParallel& context)
      : group_(*context.ring()), lane_(context.lane != nullptr ? *context.lane : group_) {}

  int size() const { return group_.size(); }
  int rank() const { return group_.rank(); }
  // Whose tokens this rank holds when it has passed them on `steps` times.
  int owner(int steps) const { return (rank() - steps + size()) % size(); }

  // Neither tensor may be written, nor `to` be read, until the shift was waited for.
  Shift start(const at::Tensor& from, const at::Tensor& to) const {
    const int next = (rank() + 1) % size(), previous = owner(1);
    const auto send = [&] {
      return Pending(from, {}, lane_of(rank()).send(comm::buffer(from), next));
    };
    const auto receive = [&] {
      return Pending({}, to, lane_of(previous).recv(comm::buffer(to), previous));
    };
    // A lane's send holds it until the peer receives: if all began with that, none would.
    if (rank() % 2 == 0) {
      Pending sent = send();
      return {.sent = std::move(sent), .received = receive()};
    }
    Pending received = receive();
    return {.sent = send(), .received = std::move(received)};
  }

 private:
  // Neighbours send in different lanes, so that a rank's send and receive need not wait for each other.
  comm::Group& lane_of(int sender) const { return sender % 2 == 0 ? group_ : lane_; }

  comm::Group& group_;
  comm::Group& lane_;
};

}  // namespace

at::Tensor ring_forward(const AttentionProblem& problem, const Qkv& in,
                        const ContextParallel& context, const at::Tensor& out) {
  const Ring ring(context);
  const PartialAttention partial = no_attention(in.q);
  at::Tensor kv = travelling(in), next = at::empty_like(kv);
  for (int step = 0; step < ring.size(); ++step) {
    const bool last = step + 1 == ring.size();
    Shift shift = last ? Shift() : ring.start(kv, next);
    attention_add(problem, with_keys(in.q, kv),
                  zigzag_segments(problem.sequence, ring.owner(step), ring.size()), partial);
    shift.wait();
    std::swap(kv, next);
  }
  return attention_finish(partial, out);
}

void ring_backward(const AttentionProblem& problem, const Qkv& in, const ContextParallel& context,
                   const AttentionRows& rows, const Qkv& grads) {
  const Ring ring(context);
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
                       zigzag_segments(problem.sequence, ring.owner(step), ring.size()), rows,
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
