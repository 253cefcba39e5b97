#include "trireme/ops/attention/attention.h"

#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "trireme/base/error.h"
#include "trireme/ops/attention/context_attention.h"
#include "trireme/ops/attention/head_exchange.h"
#include "trireme/ops/attention/heads.h"

namespace trireme::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Call : torch::CustomClassHolder {
  // `c` with the layout of those that hold tokens once heads have been exchanged.
  Call(const AttentionHeads& h, std::int64_t w, Mask m, ContextParallel c)
      : heads(h), width(w), mask(std::move(m)), context(std::move(c)) {}

  // Keys are here.
  bool alone() const { return context.layout.ranks() == 1; }

  AttentionProblem problem() const {
    const comm::Group* const ring = context.ring();
    const int holder = alone() ? 0 : ring != nullptr ? ring->rank() : context.rank();
    return {.heads = heads,
            .mask = mask,
            .sequence = context.layout.tokens,
            .queries = token_segments(context.layout, holder)};
  }

  AttentionHeads heads;  // resolved
  std::int64_t width;
  Mask mask;
  ContextParallel context;
};
using CallPtr = c10::intrusive_ptr<Call>;

at::Tensor forward_of(const Call& call, const Qkv& in, const at::Tensor& out) {
  const AttentionProblem problem = call.problem();
  if (call.alone()) return attention_forward(problem, in, problem.queries, out);
  return call.context.ring() != nullptr ? ring_forward(problem, in, call.context, out)
                                        : gathered_forward(problem, in, call.context, out);
}

void backward_of(const Call& call, const Qkv& in, const AttentionRows& rows, const Qkv& grads) {
  const AttentionProblem problem = call.problem();
  if (call.alone())
    return attention_backward(problem, in, problem.queries, rows,
                              {.dq = {grads.q}, .dk = {grads.k}, .dv = {grads.v}});
  if (call.context.ring() != nullptr) return ring_backward(problem, in, call.context, rows, grads);
  gathered_backward(problem, in, call.context, rows, grads);
}

// The result and its log-sum-exps.
variable_list attended(const Call& call, const variable_list& in) {
  const Qkv qkv = split_heads(in, call.heads, call.width);
  const std::int64_t samples = qkv.q.size(0), tokens = qkv.q.size(1), heads = call.heads.heads;
  const at::Tensor result = at::empty({samples, tokens, heads * call.width}, qkv.q.options());
  const at::Tensor log_sums =
      forward_of(call, qkv, result.view({samples, tokens, heads, call.width}));
  return {result, log_sums};
}

// Of one packed tensor or of three.
template <typename... In>
struct Attention : torch::autograd::Function<Attention<In...>> {
  static at::Tensor forward(AutogradContext* context, const In&... in, const CallPtr& call,
                            const Source& recomputed) {
    const variable_list out = attended(*call, {in...});
    context->save_for_backward({in..., kept(out[0], recomputed), kept(out[1], recomputed)});
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    save(context, "result", recomputed);
    save(context, "log_sums", {.recomputed = recomputed.recomputed, .index = 1});
    return out[0];
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    variable_list saved = context->get_saved_variables();
    const auto call =
        c10::static_intrusive_pointer_cast<Call>(context->saved_data["call"].toCapsule());
    const at::Tensor result = restored(context, "result", saved[saved.size() - 2]),
                     log_sums = restored(context, "log_sums", saved.back());
    saved.resize(sizeof...(In));
    const auto heads = [&](const at::Tensor& x) {
      return x.view({x.size(0), x.size(1), call->heads.heads, call->width});
    };
    variable_list gradients;
    for (const at::Tensor& in : saved) gradients.push_back(at::empty_like(in));
    backward_of(*call, split_heads(saved, call->heads, call->width),
                attention_rows(log_sums, heads(result), heads(grads[0].contiguous())),
                split_heads(gradients, call->heads, call->width));
    gradients.resize(sizeof...(In) + 2);
    return gradients;
  }
};

template <typename... In>
Operand attend_here(const CallPtr& call, Keep keep, const In&... in) {
  Source source;
  if (keep == Keep::kNo)
    source.recomputed = std::make_shared<Recomputed>(
        [call, all = variable_list{in.detach()...}] { return attended(*call, all); });
  return {Attention<In...>::apply(in..., call, source), source};
}

template <typename... In>
Operand attend(const AttentionHeads& heads, const Mask& mask, const ContextParallel& context,
               Keep keep, const In&... in) {
  const AttentionHeads all = heads.resolved();
  const std::int64_t width = head_width({in...}, all);
  const std::int64_t own = std::get<0>(std::tie(in...)).size(1);
  ContextParallel spread = context;
  if (context.size() == 1)
    spread.layout = mesh::in_order(own, 1);
  else if (context.layout.tokens == 0)
    spread.layout = mesh::zigzag(own * context.size(), context.size());
  TRIREME_CHECK(spread.layout.tokens_of(context.rank()) == own, "{} tokens, not {}", own,
                spread.layout.tokens_of(context.rank()));
  comm::Group* const exchange = context.exchange();
  if (exchange == nullptr || exchange->size() == 1)
    return attend_here(c10::make_intrusive<Call>(all, width, mask, spread), keep, in...);
  const int neighbours = exchange->size();
  const HeadExchange swap{
      .heads = all,
      .width = width,
      .group = exchange,
      .layout = spread.layout.among(context.rank() / neighbours * neighbours, neighbours)};
  spread.layout = spread.layout.joined(neighbours);
  Mask whole = mask;
  whole.documents = gather_documents(mask.documents, swap);
  const at::Tensor qkv = gather_tokens(in..., swap);
  const AttentionHeads share = head_share(all, exchange->rank(), neighbours);
  const Operand out =
      attend_here(c10::make_intrusive<Call>(share, width, whole, spread), keep, qkv);
  Source source;
  if (keep == Keep::kNo)
    source.recomputed = std::make_shared<Recomputed>(
        [read = out.reader(), swap]() -> variable_list { return {gather_heads(read(), swap)}; });
  return {gather_heads(out.value, swap), source};
}

}  // namespace

Operand attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const AttentionHeads& heads, const Mask& mask, const ContextParallel& context,
                  Keep result) {
  return attend(heads, mask, context, result, q.contiguous(), k.contiguous(), v.contiguous());
}

Operand attention_packed(const at::Tensor& qkv, const AttentionHeads& heads, const Mask& mask,
                         const ContextParallel& context, Keep result) {
  return attend(heads, mask, context, result, qkv.contiguous());
}

}  // namespace trireme::ops
