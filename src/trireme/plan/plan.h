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

// Canonical text; parse(print(p)) == p. parse throws Error{kData} naming the line.
std::string print(const PlanSet& plan);
PlanSet parse(std::string_view text);

// Hash of the text, compared by all ranks before the first step.
std::uint64_t digest(const PlanSet& plan);

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
