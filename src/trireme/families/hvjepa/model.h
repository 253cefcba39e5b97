// H-V-JEPA: V-JEPA 2's pretraining on chunks of a clip's tokens that a router makes (docs/models_hvjepa.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/model/families/encoder.h"
#include "trireme/model/graph.h"

namespace trireme::model {

// Tokens that each attends to in addition to itself, before the router: the most similar of the 26 around it in time, row
// and column.
inline constexpr std::int64_t kNeighbours = 8;
// Matches of a clip by place that VICRegL compares, at most.
inline constexpr std::int64_t kMatchesByPlace = 20;
// Weight of the router's ratio loss.
inline constexpr double kRatioWeight = 0.1;

bool has_chunks(const config::Job& job);

// The tower's tokens before they are chunks: `tower` with the width and heads of `chunk`.
config::Vision chunk_vision(const config::Job& job);
Encoder chunk_encoder(const config::Job& job, const Encoder& tower);

// A block in which tokens attend to neighbours, as a node: reads tokens and, of a student, which these are.
plan::ValueId neighbours_node(Graph& graph, const config::Job& job, const Encoder& tokens,
                              std::string name, plan::UnitId unit,
                              const std::vector<plan::ValueId>& reads, std::string writes,
                              bool teacher);

// Parameters in the order that models bind: the norm before the router; query, keys and values of pooling; the
// projection to the tower's width; except in mode fixed, the router's query and key.
std::vector<ParamSpec> chunk_params(const config::Job& job, const std::string& prefix);

// Work of making chunks of an encoder's tokens, in fp32 at least; marks the unit of chunk_params so.
Work chunk_work(const Graph& graph, const config::Job& job, const Encoder& encoder);
plan::UnitId exact(Graph& graph, plan::UnitId unit);

// Columns that accompany chunks, [chunks, columns]: time, row and column of their centres, each in `exact_parts`
// columns; the logarithm of their sizes; 1 where a sequence begins, or 2 where its sample only fills up a batch. For a
// teacher also one column a mask, 1 where the mask hides at least half of a chunk.
std::int64_t place_columns(const PerRank& rank, bool teacher);
plan::Value places(const Graph& graph, const Encoder& chunks, std::string name, bool teacher);

// Attentive pooling of a view's chunks and two expanders, of whole clips and of chunks.
std::vector<ParamSpec> vicreg_params(const config::Job& job);
plan::Node vicreg_node(const Graph& graph, const config::Job& job);
Work vicreg_work(const Graph& graph, const config::Job& job, const Encoder& chunks);

}  // namespace trireme::model
