// The frozen tower of H-V-JEPA: a teacher's chunks of whole clips, read out for every token.
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/families/encoder.h"
#include "trireme/model/graph.h"

namespace trireme::model {

// Of the forest that chunks are, [sequences, tokens, columns]: how far a token is from the nearest before it and that
// one's row, each in `exact_parts` columns, and 1 where the token begins a chunk.
std::int64_t tree_columns(const PerRank& rank);

// Whether tokens add what they were to what their chunks are, by a layer that begins as zero and trains with the phase:
// not where features are targets, as of jepa_ac.
bool adds_tokens(const config::Job& job);

// From clips to features [sequences, tokens, hidden]: nodes and units tower.embed, tower.chunk.block.N, tower.chunk,
// tower.block.N and tower.norm, with parameters under a teacher's names; node readout, with a unit where adds_tokens(),
// gives tokens the features of their chunks. `encoder` is of `sequences` of `tokens` tokens each.
plan::ValueId chunked_tower(Graph& graph, const config::Job& job, const Encoder& encoder,
                            plan::ValueId clips);

}  // namespace trireme::model
