// H-Net as data (Hwang, Wang and Gu 2025): stages inside each other, of which each cuts what it reads into chunks for the next.
#pragma once

#include <string>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/families/hnet/keys_stages.h"
#include "trireme/model/account/per_rank.h"
#include "trireme/model/spec.h"
#include "trireme/model/training.h"

namespace trireme::model {

// Mamba-2's sizes (Dao and Gu 2024) for a width: heads of 64 in twice the width, one group.
struct Mamba {
  explicit Mamba(std::int64_t hidden) : inner(2 * hidden), heads(2 * hidden / kWidth) {}
  static constexpr std::int64_t kWidth = 64;   // of a head
  static constexpr std::int64_t kState = 128;  // numbers of B and of C
  static constexpr std::int64_t kTaps = 4;     // of the causal convolution
  static constexpr std::int64_t kPiece = 128;  // positions that are mixed at once
  std::int64_t inner;
  std::int64_t heads;
  // Width of the convolution: x, B and C.
  std::int64_t convolved() const { return inner + 2 * kState; }
  // Width of a token's projection: z, x, B, C and a step for each head.
  std::int64_t projected() const { return inner + convolved() + heads; }
};

// Operation of a node, and its stage.
struct HnetNode {
  enum class Kind { kEmbed, kBlock, kRoute, kRatio, kJoin, kHead } kind = Kind::kBlock;
  std::size_t stage = 0;
  // Letter of a block.
  char letter = 0;
  bool decoder = false;
  std::size_t index = 0;
};
// Parallel to the nodes of hnet_spec().
std::vector<HnetNode> hnet_nodes(const std::vector<config::HnetStage>& stages);

// Columns in which a number of fp32 is carried where values are of this type: what one of bf16 loses is in the next.
int exact_parts(DType compute);

// `job` is resolved. Activations are packed, [rows, width]: of the outermost stage all bytes of a micro-batch, further
// in the chunks, whose number differs from micro-batch to micro-batch. With them goes `starts`, [rows], 1 where a
// sequence begins and else 0. Metrics: `nats`, the cross-entropy alone. For each router the share of positions that
// begin a chunk: `chunk_ratio` for the outermost and `chunk_ratio_S` for stage S.
ModelSpec hnet_spec(const config::Job& job, const PerRank& rank, const Training& training);

}  // namespace trireme::model
