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

// Parameters before the decoder's `block`-th block, in the order that blocks::GatedCross binds. Attention: norm, to_q,
// to_kv, to_out and attn_gate; feed-forward layer: norm, layers and ff_gate. Layers have no bias, both gates are one
// number that begins at 0. Heads and features are cut over tp. With a decoder of d, images of w and h heads: 2 * 64 h
// (d + w) + 8 d^2 + 4 d + 2 parameters.
std::vector<ParamSpec> cross_params(const config::Job& job, std::int64_t block);

// Adds a node `cross.N` with a unit of that name before the decoder's block N. It reads x [samples, tokens, hidden],
// `visual`, the visible rows of a token, and projected `rows` [tiles, tile_tokens, config::projected_width]. Returns
// the input of block N.
plan::ValueId add_cross(Graph& graph, const config::Job& job, std::int64_t block, plan::ValueId x,
                        plan::ValueId visual, plan::ValueId rows);

}  // namespace trireme::model
