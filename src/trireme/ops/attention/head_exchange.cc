#include "trireme/ops/attention/head_exchange.h"

#include <ATen/core/ivalue.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "trireme/base/error.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/ops/attention/heads.h"
#include "trireme/ops/dispatch.h"
#include "trireme/plan/mesh/share.h"

namespace trireme::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Tensors = std::vector<at::Tensor>;

// The part of a rank, by heads of the rank that gives and of the one that gets.
struct Share {
  AttentionHeads heads;
  std::int64_t first = 0;     // query head
  std::int64_t first_kv = 0;  // key-value head
  std::int64_t across() const { return heads.heads + 2 * heads.kv_heads; }
};

Share share_of(const AttentionHeads& heads, int rank, int ranks) {
  const AttentionHeads share = head_share(heads, rank, ranks);
  const std::int64_t first = share.first_head - heads.first_head;
  return {.heads = share, .first = first, .first_kv = heads.kv_head(first)};
}

struct Exchange : torch::CustomClassHolder, HeadExchange {
  explicit Exchange(const HeadExchange& exchange) : HeadExchange(exchange) {}
  Share share(int rank) const { return share_of(heads, rank, group->size()); }
  Share mine() const { return share(group->rank()); }

  // Sends rank p the heads messages[p], each tensor [samples, tokens, heads, width], side by side; returns what came
  // from every rank, [samples, tokens, heads_from[p], width].
  Tensors swap(const std::vector<Tensors>& messages,
               const std::vector<std::int64_t>& heads_from) const;
};
using ExchangeCall = c10::intrusive_ptr<Exchange>;

Tensors Exchange::swap(const std::vector<Tensors>& messages,
                       const std::vector<std::int64_t>& heads_from) const {
  const at::Tensor& like = messages[0][0];
  const std::int64_t samples = like.size(0), tokens = like.size(1);
  const std::int64_t head = samples * tokens * width;
  std::vector<std::int64_t> sent, received;
  for (const Tensors& message : messages) {
    std::int64_t heads_to = 0;
    for (const at::Tensor& part : message) heads_to += part.size(2);
    sent.push_back(heads_to * head);
  }
  for (const std::int64_t count : heads_from) received.push_back(count * head);

  const at::Tensor out = at::empty({comm::total(sent)}, like.options());
  const at::Tensor in = at::empty({comm::total(received)}, like.options());
  std::int64_t at = 0;
  for (std::size_t p = 0; p < messages.size(); ++p) {
    const at::Tensor message =
        out.narrow(0, at, sent[p])
            .view({samples, tokens, sent[p] / std::max<std::int64_t>(1, head), width});
    std::int64_t first = 0;
    for (const at::Tensor& part : messages[p]) {
      message.narrow(2, first, part.size(2)).copy_(part);
      first += part.size(2);
    }
    at += sent[p];
  }
  group->all_to_all(comm::buffer(out), sent, comm::buffer(in), received).wait();
  Tensors all;
  at = 0;
  for (std::size_t p = 0; p < received.size(); ++p) {
    all.push_back(in.narrow(0, at, received[p]).view({samples, tokens, heads_from[p], width}));
    at += received[p];
  }
  return all;
}

// [samples, tokens, heads * width] with its heads apart.
at::Tensor apart(const at::Tensor& x, std::int64_t width) {
  return x.view({x.size(0), x.size(1), x.size(2) / width, width});
}

at::Tensor joined(const at::Tensor& x) {
  return x.view({x.size(0), x.size(1), x.size(2) * x.size(3)});
}

Tensors all_joined(const Tensors& parts) {
  Tensors all;
  for (const at::Tensor& part : parts) all.push_back(joined(part));
  return all;
}

// Of every rank's tokens in the order of the sequence.
at::Tensor in_sequence(const Tensors& received, const Exchange& call) {
  return unshard_tokens(all_joined(received), 1, call.layout);
}

// Every rank's tokens of x, [samples, all tokens, heads, width].
std::vector<Tensors> by_tokens(const at::Tensor& x, const Exchange& call) {
  std::vector<Tensors> messages;
  for (int rank = 0; rank < call.group->size(); ++rank)
    messages.push_back({shard_tokens(x, 1, call.layout, rank)});
  return messages;
}

void save_call(AutogradContext* context, const ExchangeCall& call) {
  context->saved_data["call"] = c10::IValue::make_capsule(call);
}
ExchangeCall saved_call(AutogradContext* context) {
  return c10::static_intrusive_pointer_cast<Exchange>(context->saved_data["call"].toCapsule());
}

template <typename... In>
struct GatherTokens : torch::autograd::Function<GatherTokens<In...>> {
  static at::Tensor forward(AutogradContext* context, const In&... in, const ExchangeCall& call) {
    const Qkv qkv = split_heads({in...}, call->heads, call->width);
    const int ranks = call->group->size();
    std::vector<Tensors> messages;
    for (int rank = 0; rank < ranks; ++rank) {
      const Share to = call->share(rank);
      messages.push_back({qkv.q.narrow(2, to.first, to.heads.heads),
                          qkv.k.narrow(2, to.first_kv, to.heads.kv_heads),
                          qkv.v.narrow(2, to.first_kv, to.heads.kv_heads)});
    }
    save_call(context, call);
    const std::vector<std::int64_t> from(static_cast<std::size_t>(ranks), call->mine().across());
    return in_sequence(call->swap(messages, from), *call);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const ExchangeCall call = saved_call(context);
    const int ranks = call->group->size();
    std::vector<std::int64_t> from;
    for (int rank = 0; rank < ranks; ++rank) from.push_back(call->share(rank).across());
    const at::Tensor dout = grads[0].contiguous();
    const Tensors received = call->swap(by_tokens(apart(dout, call->width), *call), from);
    variable_list result = gradients(received, *call);
    result.emplace_back();
    return result;
  }

 private:
  // Gradients of a key-value head come from every rank that has it.
  static variable_list gradients(const Tensors& received, const Exchange& call) {
    const at::Tensor& like = received[0];
    const std::int64_t samples = like.size(0), tokens = like.size(1), width = call.width;
    const auto empty = [&](std::int64_t heads) {
      return at::empty({samples, tokens, heads * width}, like.options());
    };
    variable_list result = {
        empty(sizeof...(In) == 1 ? call.heads.heads + 2 * call.heads.kv_heads : call.heads.heads)};
    if (sizeof...(In) > 1) {
      result.push_back(empty(call.heads.kv_heads));
      result.push_back(empty(call.heads.kv_heads));
    }
    const Qkv to = split_heads(result, call.heads, width);
    const at::Tensor dkv = at::zeros({2, samples, tokens, call.heads.kv_heads, width},
                                     like.options().dtype(wide(like.scalar_type())));
    for (int rank = 0; rank < call.group->size(); ++rank) {
      const Share share = call.share(rank);
      const std::int64_t q = share.heads.heads, kv = share.heads.kv_heads;
      const at::Tensor& part = received[rank];
      to.q.narrow(2, share.first, q).copy_(part.narrow(2, 0, q));
      dkv.select(0, 0).narrow(2, share.first_kv, kv).add_(part.narrow(2, q, kv));
      dkv.select(0, 1).narrow(2, share.first_kv, kv).add_(part.narrow(2, q + kv, kv));
    }
    to.k.copy_(dkv.select(0, 0));
    to.v.copy_(dkv.select(0, 1));
    return result;
  }
};

struct GatherHeads : torch::autograd::Function<GatherHeads> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& out,
                            const ExchangeCall& call) {
    const int ranks = call->group->size();
    const at::Tensor heads =
        out.view({out.size(0), out.size(1), call->mine().heads.heads, call->width});
    std::vector<std::int64_t> from;
    for (int rank = 0; rank < ranks; ++rank) from.push_back(call->share(rank).heads.heads);
    save_call(context, call);
    return at::cat(all_joined(call->swap(by_tokens(heads, *call), from)), 2);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const ExchangeCall call = saved_call(context);
    const at::Tensor dout = apart(grads[0].contiguous(), call->width);
    std::vector<Tensors> messages;
    for (int rank = 0; rank < call->group->size(); ++rank) {
      const Share to = call->share(rank);
      messages.push_back({dout.narrow(2, to.first, to.heads.heads)});
    }
    const std::vector<std::int64_t> from(messages.size(), call->mine().heads.heads);
    return {in_sequence(call->swap(messages, from), *call), {}};
  }
};

}  // namespace

AttentionHeads head_share(const AttentionHeads& heads, int rank, int ranks) {
  const mesh::Share mine = mesh::share(heads.heads, rank, ranks);
  const mesh::Share read = mesh::granules_of(
      {.begin = mine.begin + heads.offset, .end = mine.end + heads.offset}, heads.group);
  AttentionHeads share = heads;
  share.heads = mine.count();
  share.kv_heads = read.count();
  share.offset += mine.begin - read.begin * heads.group;
  share.first_head += mine.begin;
  return share;
}

at::Tensor gather_tokens(const at::Tensor& qkv, const HeadExchange& exchange) {
  return GatherTokens<at::Tensor>::apply(qkv, c10::make_intrusive<Exchange>(exchange));
}

at::Tensor gather_tokens(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const HeadExchange& exchange) {
  return GatherTokens<at::Tensor, at::Tensor, at::Tensor>::apply(
      q, k, v, c10::make_intrusive<Exchange>(exchange));
}

at::Tensor gather_heads(const at::Tensor& out, const HeadExchange& exchange) {
  return GatherHeads::apply(out, c10::make_intrusive<Exchange>(exchange));
}

Documents gather_documents(const Documents& documents, const HeadExchange& exchange) {
  comm::Group& group = *exchange.group;
  const auto gather = [&](const at::Tensor& mine) {
    if (!mine.defined()) return mine;
    const at::Tensor all = at::empty({group.size(), mine.size(0), mine.size(1)}, mine.options());
    group.all_gather(comm::buffer(mine), comm::buffer(all)).wait();
    return unshard_tokens(all.unbind(0), 1, exchange.layout);
  };
  return {gather(documents.begin), gather(documents.end)};
}

}  // namespace trireme::ops
