// DeepStack: earlier layers of a vision tower that the decoder's first blocks see as well (Meng et al. 2024, as Qwen3-VL has
// it).
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/model/graph.h"

namespace trireme::model {

// Nodes `deepstack.I`, one for each layer of vlm.deepstack: a projector of its own kind, whose unit has that name, of what
// the layer's block writes. `layers` are these values, [tiles, tokens, width]; gives as many, [tiles, tile_tokens, hidden].
std::vector<plan::ValueId> add_deepstack(Graph& graph, const config::Job& job, std::int64_t tiles,
                                         const std::vector<plan::ValueId>& layers);

// A node `seen.I`: what a decoder's block writes, with the I-th layer's projected rows added where an image's tokens stand.
// `visual` is the input that says which row stands where.
plan::ValueId add_seen(Graph& graph, const config::Job& job, std::size_t layer, plan::ValueId x,
                       plan::ValueId visual, plan::ValueId rows);

}  // namespace trireme::model
