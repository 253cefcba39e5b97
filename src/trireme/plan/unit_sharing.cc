#include "trireme/plan/unit_sharing.h"

#include <algorithm>

namespace trireme::plan {

UnitSharing sharing_of(const mesh::Mesh& mesh, const Recipe& recipe, const Unit& unit) {
  const DataParallelRow row = data_parallel_row(recipe.zero);
  UnitSharing sharing;
  if (row.sharded_states) sharing.shards = mesh.real(unit.axes.shards);
  if (recipe.outer) sharing.islands = mesh::Axis::kIsland;
  sharing.rest = mesh.real(unit.axes.replicas) - sharing.shards - sharing.islands;
  sharing.coded = codes(recipe, unit);
  if (sharing.coded && (sharing.shards | sharing.rest).empty())
    sharing.rest = mesh::Axis::kDpReplicate;
  const bool sharded = !sharing.shards.empty();
  sharing.scatters_each = sharded && row.reduce_each_mb;
  sharing.gathers = sharded && row.sharded_params;
  sharing.gathers_after = sharded && row.unshard_after_step;
  return sharing;
}

bool has_shards(const mesh::Mesh& mesh, const Program& program) {
  return std::ranges::any_of(
      program.units, [&](const Unit& unit) { return !mesh.real(unit.axes.shards).empty(); });
}

Reduction reduction_of(const Program& program, const Instr& line) {
  if (line.verb == Verb::kSyncTied) return Reduction::kTied;
  if (line.verb != Verb::kReduceGrads) return Reduction::kNone;
  if (line.scatter) return Reduction::kScatter;
  const Unit& unit = program.units[line.unit];
  return line.axes == unit.axes.partial ? Reduction::kParts : Reduction::kAllReduce;
}

bool codes(const Recipe& recipe, const Unit& unit) {
  if (!recipe.coded || !unit.trainable || unit.numel < kLeastCoded) return false;
  return !sums_at_low_rank(recipe) || std::ranges::any_of(unit.matrices, [&](const Matrix& matrix) {
    return is_factored(matrix, recipe.coded->codec.rank);
  });
}

bool sums_at_low_rank(const Recipe& recipe) {
  return recipe.coded && codec::is_low_rank(recipe.coded->codec);
}

bool is_factored(const Matrix& matrix, int rank) {
  return (matrix.rows + matrix.cols) * 2 * rank < matrix.numel();
}

bool has_residual(const Recipe& recipe, const Unit& unit) {
  return codes(recipe, unit) && recipe.coded->residual;
}

bool gathers_codes(const Recipe& recipe, const Unit& unit) {
  return recipe.gather && (unit.trainable || unit.ema_of >= 0) && unit.numel >= kLeastCoded;
}

mesh::Mesh in_blocks(const mesh::Mesh& mesh, int within) {
  const auto of = [&](mesh::Axis axis) { return mesh.degree(axis); };
  return mesh::Mesh(
      {.pp = of(mesh::Axis::kPp),
       .dp_replicate = of(mesh::Axis::kDpReplicate) * of(mesh::Axis::kDpShard) / within,
       .dp_shard = within,
       .cp = of(mesh::Axis::kCp),
       .tp = of(mesh::Axis::kTp),
       .island = of(mesh::Axis::kIsland)});
}

mesh::AxisSet coded_axes(const UnitSharing& sharing) {
  return sharing.rest.empty() ? sharing.shards : sharing.rest;
}

bool is_coded(const UnitSharing& sharing, const Instr& line) {
  const bool shards = sharing.rest.empty();
  return sharing.coded && line.verb == Verb::kReduceGrads && line.scatter == shards &&
         (line.mb >= 0) == (shards && sharing.scatters_each) && line.axes == coded_axes(sharing);
}

}  // namespace trireme::plan
