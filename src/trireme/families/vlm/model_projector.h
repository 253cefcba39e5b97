// Projectors as data: how the features of a tile become tokens of a decoder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/model/graph.h"

namespace trireme::model {

// A head of a Perceiver resampler has so many channels.
inline constexpr std::int64_t kResamplerHead = 64;

// Features that a merger joins to one token: 2 x 2.
inline constexpr std::int64_t kMerged = 4;

// How names of its parameters begin.
inline constexpr std::string_view kProjectorPrefix = "multi_modal_projector.";

// Parameters of a resolved job's projector, whole on every tp rank, in the order that blocks::Projector binds:
//   none        nothing
//   linear      a layer
//   mlp         two layers with GELU between (LLaVA 1.5, Liu et al. 2023)
//   merger      a norm of features, then of each 2 x 2 of them side by side two layers with GELU between; those of DeepStack
//               have the norm after the joining (Qwen3-VL)
//   qformer     queries and their norm; of each layer self-attention, across on every other one from the first, and a
//               feed-forward layer, each followed by a norm (Li et al. 2023, BLIP-2: the query path); a layer to the
//               decoder
//   perceiver   latents, drawn from N(0, 1); of each layer attention of latents to features and latents, and a feed-forward layer, a norm
//               before each, no biases; a norm (Alayrac et al. 2022, Flamingo); a layer to the decoder
// Where blocks attend to queries (vlm.cross) the last two end without that layer.
std::vector<ParamSpec> projector_params(const config::Job& job, bool deepstack = false);

// Work for a micro-batch of `tiles` tiles with `features` features each.
Work projector_work(const Graph& graph, const config::Job& job, std::int64_t tiles,
                    std::int64_t features);
// Its result, [tiles, tile_tokens, config::projected_width].
plan::Value projected_tokens(const Graph& graph, const config::Job& job, std::int64_t tiles,
                             std::string name);

}  // namespace trireme::model
