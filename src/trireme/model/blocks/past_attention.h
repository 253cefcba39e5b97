// Attention of a text that is read in parts on one rank, as in generation.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "trireme/exec/past.h"

namespace trireme::blocks {

// Causal attention of rows that follow those in `past`, whose keys and values it keeps, as far as a window shows them to
// later rows. `q`: [.., rows, heads, width]; `k`, `v`: [.., rows, kv_heads, width] with heads a multiple of kv_heads, all of
// one sequence; result as q. A row sees `window` rows before itself; below 0 all. Scores are fp32, fp64 for fp64, and
// capped as ops::attention's.
at::Tensor attend_after(exec::Past& past, const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, std::int64_t window = -1, double cap = 0);

}  // namespace trireme::blocks
