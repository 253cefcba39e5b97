// Causal self-attention that keeps no scores.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trireme::ops {

struct AttentionHeads {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // divides heads; head h reads key-value head h / (heads / kv_heads)
  double dropout = 0;         // of probabilities, in [0, 1)
  std::uint64_t key = 0;      // of that noise
};

// softmax(q k^T / sqrt(head_dim)) v where a token sees itself and what is before it (Vaswani et al.
// 2017). q: [samples, tokens, heads * head_dim]; k, v: [samples, tokens, kv_heads * head_dim]; result
// as q. Scores and sums are fp32 (fp64 for fp64). Scores live for 64 rows at a time and are computed
// again in backward (Dao et al. 2022): keeps q, k, v, the result and one number a row.
at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const AttentionHeads& heads);

// The same with q, k and v side by side in the last dim, whose gradient is then one tensor.
at::Tensor causal_attention_packed(const at::Tensor& qkv, const AttentionHeads& heads);

}  // namespace trireme::ops
