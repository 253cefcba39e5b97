// Masked attention written with plain tensor operations, and the masks to compare it under.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "tests/ops/compare.h"
#include "trireme/ops/attention/attention.h"

namespace trireme::ops {

// Documents by the cuts of a sequence, for `samples` samples that differ: sample s has its cuts moved by s.
inline Documents documents_of_cuts(std::int64_t samples, std::int64_t tokens,
                                   const std::vector<std::int64_t>& cuts) {
  std::vector<std::int64_t> sums = {0};
  for (std::int64_t s = 0; s < samples; ++s) {
    for (const std::int64_t cut : cuts) sums.push_back(s * tokens + cut + s);
    sums.push_back((s + 1) * tokens);
  }
  return documents_of_lengths(at::tensor(sums, at::kLong), samples, tokens);
}

// [samples, 1, queries, keys]: who sees whom, by definition.
inline at::Tensor visible(const Mask& mask, std::int64_t samples, std::int64_t tokens) {
  at::Tensor seen = at::zeros({samples, 1, tokens, tokens}, at::kBool);
  auto at = seen.accessor<bool, 4>();
  const Documents& documents = mask.documents;
  for (std::int64_t s = 0; s < samples; ++s)
    for (std::int64_t i = 0; i < tokens; ++i) {
      const bool cut = documents.begin.defined();
      const std::int64_t begin = cut ? documents.begin[s][i].item<std::int64_t>() : 0;
      const std::int64_t end = cut ? documents.end[s][i].item<std::int64_t>() : tokens;
      for (std::int64_t j = begin; j < end; ++j)
        at[s][0][i][j] = mask.kind == MaskKind::kFull ||
                         (mask.kind == MaskKind::kCausal && j <= i &&
                          (mask.window < 0 || j >= i - mask.window)) ||
                         (mask.kind == MaskKind::kBlockCausal &&
                          (j - begin) / mask.block <= (i - begin) / mask.block);
    }
  return seen;
}

// A query that sees nothing gives 0.
inline at::Tensor naive_attention(const Tensors& in, const AttentionHeads& given,
                                  const Mask& mask) {
  const AttentionHeads heads = given.resolved();
  const at::Tensor &q = in[0], &k = in[1], &v = in[2];
  const std::int64_t width = q.size(2) / heads.heads;
  std::vector<std::int64_t> reads;
  for (std::int64_t h = 0; h < heads.heads; ++h) reads.push_back(heads.kv_head(h));
  const auto split = [&](const at::Tensor& x, std::int64_t count) {
    return x.view({x.size(0), x.size(1), count, width}).transpose(1, 2);
  };
  const at::Tensor of = at::tensor(reads, at::kLong);
  const at::Tensor keys = split(k, heads.kv_heads).index_select(1, of);
  const at::Tensor values = split(v, heads.kv_heads).index_select(1, of);
  const at::Tensor seen = visible(mask, q.size(0), q.size(1));
  at::Tensor scores =
      split(q, heads.heads).matmul(keys.transpose(2, 3)) / std::sqrt(static_cast<double>(width));
  if (heads.cap > 0) scores = heads.cap * (scores / heads.cap).tanh();
  const at::Tensor probs = scores.masked_fill(seen.logical_not(), -1e30).softmax(-1) * seen;
  return probs.matmul(values).transpose(1, 2).reshape(q.sizes());
}

struct NamedMask {
  std::string name;
  Mask mask;
};
// Every kind, with and without documents.
inline std::vector<NamedMask> all_masks(std::int64_t samples, std::int64_t tokens) {
  std::vector<NamedMask> masks = {{"causal", Mask::causal()},
                                  {"full", Mask::full()},
                                  {"block causal", Mask::block_causal(6)},
                                  {"windowed", Mask::causal({}, 3)}};
  if (tokens < 12) return masks;
  const Documents documents =
      documents_of_cuts(samples, tokens, {tokens / 6, tokens / 6 + 1, tokens / 2});
  masks.push_back({"causal with documents", Mask::causal(documents)});
  masks.push_back({"windowed with documents", Mask::causal(documents, tokens / 4)});
  masks.push_back({"full with documents", Mask::full(documents)});
  masks.push_back({"block causal with documents", Mask::block_causal(6, documents)});
  return masks;
}

inline const std::vector<AttentionHeads>& ways_of_heads() {
  static const std::vector<AttentionHeads> ways = {
      {.heads = 4, .kv_heads = 4},
      {.heads = 4, .kv_heads = 2, .dropout = 0.3, .key = 7},
      {.heads = 6, .kv_heads = 2},
      {.heads = 3, .kv_heads = 1},
      {.heads = 2, .kv_heads = 1, .dropout = 0.1, .key = 9, .cap = 0.8},
      // Heads 2 .. 6 of 9, three to a key-value head.
      {.heads = 5,
       .kv_heads = 3,
       .group = 3,
       .offset = 2,
       .first_head = 2,
       .all_heads = 9,
       .dropout = 0.2,
       .key = 8}};
  return ways;
}

}  // namespace trireme::ops
