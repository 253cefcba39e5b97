// The frozen tower of H-V-JEPA: a teacher's chunks of whole clips, read out for every token.
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/families/encoder.h"
#include "trireme/model/graph.h"

namespace trireme::model {

// Columns of the forest of chunks, [sequences, tokens, columns]: distance of a token to the nearest before it, that
// token's row, each in `exact_parts` columns, and 1 where the token begins a chunk.
std::int64_t tree_columns(const PerRank& rank);

// Whether tokens add their own features to those of their chunks, by a layer that begins as zero and trains with the
// phase. False where features are targets, as for jepa_ac.
bool adds_tokens(const config::Job& job);

// From clips to features [sequences, tokens, hidden]. Nodes and units: tower.embed, tower.chunk.block.N, tower.chunk,
// tower.block.N and tower.norm, with parameters under a teacher's names. Node readout, with a unit where adds_tokens(),
// gives tokens the features of their chunks. `encoder` is of `sequences` of `tokens` tokens each.
plan::ValueId chunked_tower(Graph& graph, const config::Job& job, const Encoder& encoder,
                            plan::ValueId clips);

}  // namespace trireme::model
