// Assignment of logical micro-batches of the global batch to ranks, so that every row of the lifetime table adds
// gradients along the same balanced binary tree over ids 0 .. G-1.
#pragma once

#include <cstdint>

#include "trireme/plan/mesh/mesh.h"
#include "trireme/plan/recipe.h"

namespace trireme::plan {

// G: micro-batches of one global batch, over all data-parallel ranks.
std::int64_t global_micro_batches(const mesh::Mesh& mesh, const Recipe& recipe);

// The global id of a rank's mb-th micro-batch of a step. With R replicas, S shards and n micro-batches a rank, the low
// bits of the id are added first. Rows that reduce once a step add locally first: id = (r S + s) n + mb. Rows that
// reduce every micro-batch add over the shards first: id = r n S + mb S + s.
std::int64_t micro_batch_id(const mesh::Mesh& mesh, const Recipe& recipe, int rank, int mb);

}  // namespace trireme::plan
