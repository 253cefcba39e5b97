// Parts of what nodes of language models keep that backward can recompute instead.
#pragma once

#include <string_view>
#include <vector>

#include "trireme/model/account/per_rank.h"
#include "trireme/plan/program.h"

namespace trireme::model {

// Names of parts, as in recompute.parts.
inline constexpr std::string_view kNorms = "norms";          // what both norms of a block give
inline constexpr std::string_view kAttention = "attention";  // attention's result and log-sum-exps
inline constexpr std::string_view kMlp = "mlp";  // what the feed-forward's activation reads
inline constexpr std::string_view kLogits = "logits";

// Tokens of the vocabulary whose logits exist at a time if they are not kept.
inline constexpr std::int64_t kLogitColumns = 8192;

// The operations of a family's block.
struct BlockShape {
  std::int64_t inner = 0;      // features of a token that the activation reads, on one rank
  double norm_flops = 0;       // of an element
  double attention_flops = 0;  // of a micro-batch
  double inner_flops = 0;
  int norms = 2;         // of which what they give is kept
  bool attended = true;  // a gradient comes back to attention
  // Layers before the activation keep what they read for their weights. Else it is recomputed by its norm, which is not
  // kept, or without one kept for this part alone.
  bool up_trains = true;
  bool up_normed = true;
};
std::vector<plan::Part> block_parts(const Sizes& sizes, const BlockShape& block);

// `flops`: of the output layer's product. A frozen output layer keeps its input only to recompute logits.
std::vector<plan::Part> head_parts(const Sizes& sizes, double flops, bool weight_trains);

}  // namespace trireme::model
