// DeepStack: earlier layers of a vision tower that the decoder's first blocks see as well (Meng et al. 2024, as Qwen3-VL has
// it).
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/model/graph.h"

namespace trireme::model {

// Adds nodes `deepstack.I`, one for each layer of vlm.deepstack: a projector, with a unit of that name, of the result
// of the layer's block. `layers` are these results, [tiles, tokens, width]; returns as many, [tiles, tile_tokens,
// hidden].
std::vector<plan::ValueId> add_deepstack(Graph& graph, const config::Job& job, std::int64_t tiles,
                                         const std::vector<plan::ValueId>& layers);

// Adds a node `seen.I`: the result of a decoder's block plus the I-th layer's projected rows at an image's tokens.
// `visual` is the input with the row of each token.
plan::ValueId add_seen(Graph& graph, const config::Job& job, std::size_t layer, plan::ValueId x,
                       plan::ValueId visual, plan::ValueId rows);

}  // namespace trireme::model
