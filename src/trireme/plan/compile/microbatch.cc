#include "trireme/plan/compile/microbatch.h"

namespace trireme::plan {

using mesh::Axis;

std::int64_t global_micro_batches(const mesh::Mesh& mesh, const Recipe& recipe) {
  return std::int64_t{mesh.degree(mesh::kDp)} * recipe.micro_batches;
}

std::int64_t micro_batch_id(const mesh::Mesh& mesh, const Recipe& recipe, int rank, int mb) {
  const std::int64_t replica = mesh.index_in_group(rank, {Axis::kIsland, Axis::kDpReplicate});
  const std::int64_t shard = mesh.coordinate(rank, Axis::kDpShard);
  const std::int64_t shards = mesh.degree(Axis::kDpShard);
  const std::int64_t count = recipe.micro_batches;
  if (data_parallel_row(recipe.zero).reduce_each_mb)
    return replica * count * shards + mb * shards + shard;
  return (replica * shards + shard) * count + mb;
}

}  // namespace trireme::plan
