// PlanSet: the instruction lists of every rank. It is compiled, validated, priced, drawn and run as is.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/plan/instr.h"
#include "trireme/plan/mesh/mesh.h"
#include "trireme/plan/program.h"
#include "trireme/plan/recipe.h"

namespace trireme::plan {

using List = std::vector<Instr>;

struct PlanSet {
  Program program;
  mesh::Mesh mesh;
  Recipe recipe;
  std::vector<List> lists;        // ranks of one pipeline stage share a list: peers are stages
  std::vector<int> list_of_rank;  // world entries

  const List& list(int rank) const { return lists[list_of_rank[static_cast<std::size_t>(rank)]]; }
  bool operator==(const PlanSet&) const = default;
};

// Runs the passes: lower, recompute, p2p, unshard, reduce, tail, lanes. `grid` has the actions of each stage in order;
// without it the recipe's schedule decides. Throws Error{kUsage} for a recipe, mesh or grid that the program cannot
// take, with the numbers and a way out.
PlanSet compile(Program program, const mesh::Mesh& mesh, const Recipe& recipe);
PlanSet compile(Program program, const mesh::Mesh& mesh, const Recipe& recipe,
                const schedules::Grid& grid);

// Throws Error{kUsage} if activations are to be offloaded and none can: only inputs of recomputed nodes can be, and no
// node is recomputed. This check is separate, because a search for recomputation compiles plans without any.
void check_activations_leave(const PlanSet& plan);

// The grid of the recipe's schedule. Stages cost what their nodes' flops say, or their measured seconds where
// all nodes have some.
schedules::Grid schedule_grid(const Program& program, const mesh::Mesh& mesh, const Recipe& recipe);

// Canonical text; parse(print(p)) == p. parse throws Error{kData} naming the line.
std::string print(const PlanSet& plan);
PlanSet parse(std::string_view text);

// Hash of the text, compared by all ranks before the first step.
std::uint64_t digest(const PlanSet& plan);

// Proves the plan. The lists run to the end in a rendezvous simulation with bounded lanes: no deadlock, collectives of
// a group meet in the same order with the same arguments, sends meet receives. Nothing is used before it exists or
// after it is freed. Every gradient of every trainable unit is reduced exactly once over exactly its users. Nothing is
// left allocated at the end. Throws Error{kInternal} naming rank, line and reason.
void validate(const PlanSet& plan);

// Data that the executor creates with each line of a list and drops after it, derived from the list alone. A value
// without readers is dropped where it appears. A segment's inner values are dropped with its forwards and appear again
// with its recomputation.
struct Retirement {
  std::vector<ValueId> writes;  // of a recompute: what later ones of its segment read and is gone
  std::vector<std::pair<ValueId, int>> values;  // of a micro-batch: read for the last time
  // Units whose gradient of the line's mb, in its node's chunk, the line is the first to write, and those whose gradient
  // is now complete.
  std::vector<UnitId> opens;
  std::vector<UnitId> gradients;
  bool operator==(const Retirement&) const = default;
};
std::vector<Retirement> retirements(const Program& program, std::span<const Instr> list);

// Maximum number of forwards that a list keeps at once for their backwards; a split one is kept to the end of the
// weight backward.
int kept_forwards(std::span<const Instr> list);

}  // namespace trireme::plan
