// Gated cross-attention: blocks between a decoder's that let text attend to images (Alayrac et al. 2022, Flamingo, as
// OpenFlamingo has it).
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/model/graph.h"

namespace trireme::model {

// A head has so many channels, and the feed-forward layer so many times the decoder's width.
inline constexpr std::int64_t kCrossHead = 64, kCrossWider = 4;
inline constexpr double kCrossNormEps = 1e-5;

// Of the block before the decoder's `block`-th, in the order that blocks::GatedCross binds: norm, to_q, to_kv, to_out and
// attn_gate of attention, norm, layers and ff_gate of the feed-forward layer. Layers have no bias, both gates are one
// number that begins as 0. Heads and features are cut over tp. With a decoder of d, images of w and h heads:
// 2 * 64 h (d + w) + 8 d^2 + 4 d + 2 parameters.
std::vector<ParamSpec> cross_params(const config::Job& job, std::int64_t block);

// A node `cross.N` with a unit of that name, before the decoder's block N: reads x [samples, tokens, hidden], `visual`,
// which says what a token sees, and projected `rows` [tiles, tile_tokens, config::projected_width]; gives what block N reads.
plan::ValueId add_cross(Graph& graph, const config::Job& job, std::int64_t block, plan::ValueId x,
                        plan::ValueId visual, plan::ValueId rows);

}  // namespace trireme::model
