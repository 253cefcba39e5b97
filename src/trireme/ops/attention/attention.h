// Self-attention that keeps no scores, on one rank or with the sequence spread over many.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "trireme/ops/attention/context.h"
#include "trireme/ops/attention/mask.h"
#include "trireme/ops/recomputed.h"

namespace trireme::ops {

// The heads of this rank and where they stand among all.
struct AttentionHeads {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  // Query heads that read one key-value head. Head h reads key-value head (h + offset) / group. 0: heads / kv_heads.
  std::int64_t group = 0;
  // First query head of this rank among all, less the first key-value head times `group`: heads that were split among
  // ranks without regard to groups.
  std::int64_t offset = 0;
  std::int64_t first_head = 0;  // of this rank among all query heads
  std::int64_t all_heads = 0;   // query heads of all ranks; 0: heads
  double dropout = 0;           // of probabilities, in [0, 1)
  std::uint64_t key = 0;        // of that noise
  double cap = 0;               // scaled scores z become cap tanh(z / cap) (Gemma 2); 0: they stay

  // Replaces each 0 by the value it means, and checks the constraints.
  AttentionHeads resolved() const;
  std::int64_t kv_head(std::int64_t head) const { return (head + offset) / group; }
};

// softmax(q k^T / sqrt(head_dim)) v over the keys that the mask shows (Vaswani et al. 2017); a query without keys gives
// 0. `q`: [samples, tokens, heads * head_dim]; `k`, `v`: [samples, tokens, kv_heads * head_dim]; result as q. Scores
// and sums are fp32 (fp64 for fp64). Scores exist for 64 rows and 2,048 columns at a time and are recomputed in
// backward (Dao et al. 2022). Keeps q, k, v, the result and one number a row. The next two results can be recomputed,
// which repeats the exchanges of keys, values and results of forward.
//
// Noise is a function of the key and of the probability's sample, head, query and key in the whole problem. It does not
// depend on the distribution of heads and tokens over ranks.
//
// Under context parallelism every rank calls it with its own tokens (see context.h); the result and the gradients are
// of these. Forward and backward are collective.
Operand attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const AttentionHeads& heads, const Mask& mask,
                  const ContextParallel& context = {}, Keep result = Keep::kYes);

// The same with q, k and v side by side in the last dim, whose gradient is then one tensor.
Operand attention_packed(const at::Tensor& qkv, const AttentionHeads& heads, const Mask& mask,
                         const ContextParallel& context = {}, Keep result = Keep::kYes);

}  // namespace trireme::ops
