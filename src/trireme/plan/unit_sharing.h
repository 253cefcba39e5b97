// Sharing of a unit among the ranks of a mesh, and the reduction of its gradient: one answer for passes, validator,
// memory account, prices and executor.
#pragma once

#include <cstdint>

#include "trireme/plan/instr.h"
#include "trireme/plan/mesh/mesh.h"
#include "trireme/plan/program.h"
#include "trireme/plan/recipe.h"

namespace trireme::plan {

// Axes are those on which the mesh has more than one rank.
struct UnitSharing {
  mesh::AxisSet shards;        // of states and reduced gradients; empty: each rank has them whole
  mesh::AxisSet rest;          // over which gradients are reduced besides, as all-reduces
  bool scatters_each = false;  // gradients of single micro-batches are reduce-scattered
  bool gathers = false;        // parameters are gathered around their use
  bool gathers_after = false;  // or once between an update and the next use
  mesh::AxisSet islands;       // over which weights are merged, not gradients reduced
  bool coded = false;          // the last reduction of a gradient sends codes: is_coded()
};
UnitSharing sharing_of(const mesh::Mesh& mesh, const Recipe& recipe, const Unit& unit);

// Whether any unit has shards on this mesh, whatever the recipe.
bool has_shards(const mesh::Mesh& mesh, const Program& program);

// Effect of a line on a unit's gradient. A line that names one micro-batch concerns that one alone.
enum class Reduction : std::uint8_t {
  kNone,
  kParts,      // all-reduce of the elements of which each rank has a part: UnitAxes::partial
  kScatter,    // reduce-scatter to the shards
  kAllReduce,  // all-reduce of what is there
  kTied,       // all-reduce over the stages that use the unit
};
Reduction reduction_of(const Program& program, const Instr& line);

// Whether a recipe codes sums of the unit's gradient: of trainable units from kLeastCoded elements on.
inline constexpr std::int64_t kLeastCoded = 1 << 16;
bool codes(const Recipe& recipe, const Unit& unit);
// Whether the recipe's codes are factors of matrices; then only units with such matrices are coded.
bool sums_at_low_rank(const Recipe& recipe);
// Whether the sum of a matrix travels as factors of `rank` columns: they have less than half of its elements.
bool is_factored(const Matrix& matrix, int rank);
bool has_residual(const Recipe& recipe, const Unit& unit);  // and senders keep residuals
// Whether its gathers send codes: of units that change, from as many elements on.
bool gathers_codes(const Recipe& recipe, const Unit& unit);
// The mesh in which blocks of `within` neighbours along dp_shard are dp_shard, and the blocks replicas.
mesh::Mesh in_blocks(const mesh::Mesh& mesh, int within);
// The axes whose ranks exchange codes: those of `rest`, or of shards without it. One rank has a line too, over an axis of
// one rank, because its sums have the bits of several ranks.
mesh::AxisSet coded_axes(const UnitSharing& sharing);
// Whether the line is that reduction.
bool is_coded(const UnitSharing& sharing, const Instr& line);

}  // namespace trireme::plan
