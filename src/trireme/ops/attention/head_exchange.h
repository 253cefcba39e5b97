// Heads against tokens: before attention every rank gives away other ranks' heads and gets their tokens of its own
// (DeepSpeed-Ulysses, Jacobs et al. 2023).
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/ops/attention/attention.h"

namespace trireme::ops {

// Heads of `heads` (resolved) that rank `rank` of `ranks` computes: its mesh::share, with every key-value head that
// they read. Several ranks may hold the same key-value head.
AttentionHeads head_share(const AttentionHeads& heads, int rank, int ranks);

// Ranks of a group that exchange `heads` (resolved), `width` wide, for each other's tokens.
struct HeadExchange {
  AttentionHeads heads;
  std::int64_t width = 0;
  comm::Group* group = nullptr;
  mesh::TokenLayout layout;  // of the tokens that they hold together
};

// Exchanges q, k and v of this rank's tokens (one packed tensor or three) for those of all tokens of the group. The result
// has this rank's share of heads, packed. Differentiable and collective, backward too.
at::Tensor gather_tokens(const at::Tensor& qkv, const HeadExchange& exchange);
at::Tensor gather_tokens(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const HeadExchange& exchange);

// The way back for attention's result: from [samples, all tokens, share of heads * width] to [samples, tokens,
// heads * width].
at::Tensor gather_heads(const at::Tensor& out, const HeadExchange& exchange);

// Documents of all tokens of the group from those of this rank's. Collective.
Documents gather_documents(const Documents& documents, const HeadExchange& exchange);

}  // namespace trireme::ops
