// Attention of queries to keys that are not theirs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "trireme/ops/attention/mask.h"

namespace trireme::ops {

// softmax(q k^T / sqrt(head_dim)) v, where a query sees the keys from its `seen.begin` to its `seen.end` - 1, int64
// [samples, queries]. A query without keys gives 0 and no gradient. `q`: [samples, queries, heads * head_dim]. `kv`:
// [samples, keys, 2 * heads * head_dim], the keys of all heads and then the values. Result as q. Keeps q, kv, `seen`,
// the result and one number a query and head; scores are recomputed as in attention().
at::Tensor cross_attention(const at::Tensor& q, const at::Tensor& kv, std::int64_t heads,
                           const Documents& seen);

}  // namespace trireme::ops
