// The heads of attention's tensors.
#pragma once

#include <vector>

#include "trireme/ops/attention/attention_core.h"

namespace trireme::ops {

// Views of q, k and v, [samples, tokens, heads, width], in one packed tensor or in three.
Qkv split_heads(const std::vector<at::Tensor>& in, const AttentionHeads& heads, std::int64_t width);

// Width of a head; checks that q, k and v fit `heads` (resolved).
std::int64_t head_width(const std::vector<at::Tensor>& in, const AttentionHeads& heads);

}  // namespace trireme::ops
