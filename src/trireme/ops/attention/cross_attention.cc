#include "trireme/ops/attention/cross_attention.h"

#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "trireme/base/error.h"
#include "trireme/ops/attention/attention_core.h"

namespace trireme::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor heads_in(const at::Tensor& x, std::int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, -1});
}

// Views of both, [samples, tokens, heads, head_dim].
Qkv views_of(const at::Tensor& q, const at::Tensor& kv, std::int64_t heads) {
  const std::int64_t inner = q.size(2);
  return {.q = heads_in(q, heads),
          .k = heads_in(kv.narrow(2, 0, inner), heads),
          .v = heads_in(kv.narrow(2, inner, inner), heads)};
}

AttentionProblem problem_of(const Qkv& in, const Documents& seen) {
  const std::int64_t heads = in.q.size(2);
  return {.heads = AttentionHeads{.heads = heads, .kv_heads = heads}.resolved(),
          .mask = Mask::full(seen),
          .sequence = in.k.size(1),
          .queries = {{.tokens = in.q.size(1)}}};
}

Segments all_keys(const Qkv& in) { return {{.tokens = in.k.size(1)}}; }

struct CrossAttention : torch::autograd::Function<CrossAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& kv,
                            std::int64_t heads, const at::Tensor& begin, const at::Tensor& end) {
    const Qkv in = views_of(q, kv, heads);
    const at::Tensor result = at::empty_like(q);
    const at::Tensor log_sums =
        attention_forward(problem_of(in, {begin, end}), in, all_keys(in), heads_in(result, heads));
    context->save_for_backward({q, kv, begin, end, result, log_sums});
    context->saved_data["heads"] = heads;
    return result;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &kv = saved[1];
    const std::int64_t heads = context->saved_data["heads"].toInt();
    const Qkv in = views_of(q, kv, heads);
    const at::Tensor dq = at::empty_like(q), dkv = at::empty_like(kv);
    const Qkv to = views_of(dq, dkv, heads);
    attention_backward(
        problem_of(in, {saved[2], saved[3]}), in, all_keys(in),
        attention_rows(saved[5], heads_in(saved[4], heads), heads_in(grads[0].contiguous(), heads)),
        {.dq = {to.q}, .dk = {to.k}, .dv = {to.v}});
    return {dq, dkv, {}, {}, {}};
  }
};

}  // namespace

at::Tensor cross_attention(const at::Tensor& q, const at::Tensor& kv, std::int64_t heads,
                           const Documents& seen) {
  TRIREME_CHECK(
      heads > 0 && q.size(2) % heads == 0 && kv.size(2) == 2 * q.size(2) && kv.size(0) == q.size(0),
      "{} columns of queries and {} of keys and values for {} heads", q.size(2), kv.size(2), heads);
  return CrossAttention::apply(q.contiguous(), kv.contiguous(), heads, seen.begin, seen.end);
}

}  // namespace trireme::ops
