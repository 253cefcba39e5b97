#include "trireme/plan/unit_sharing.h"

#include <algorithm>

namespace trireme::plan {

UnitSharing sharing_of(const mesh::Mesh& mesh, const Recipe& recipe, const Unit& unit) {
  const DataParallelRow row = data_parallel_row(recipe.zero);
  UnitSharing sharing;
  if (row.sharded_states) sharing.shards = mesh.real(unit.axes.shards);
  sharing.rest = mesh.real(unit.axes.replicas) - sharing.shards;
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
  return recipe.coded && unit.trainable && unit.numel >= kLeastCoded;
}

bool has_residual(const Recipe& recipe, const Unit& unit) {
  return codes(recipe, unit) && recipe.coded->residual;
}

mesh::AxisSet coded_axes(const UnitSharing& sharing) {
  return sharing.rest.empty() ? sharing.shards : sharing.rest;
}

bool is_coded(const UnitSharing& sharing, const Instr& line) {
  return sharing.coded && line.verb == Verb::kReduceGrads && line.mb < 0 &&
         line.scatter == sharing.rest.empty() && line.axes == coded_axes(sharing);
}

}  // namespace trireme::plan
