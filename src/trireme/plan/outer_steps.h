// Outer steps (DiLoCo): islands of ranks train apart and merge their weights every few steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/plan/coded_reduction.h"
#include "trireme/plan/plan.h"

namespace trireme::plan {

// Fragments that step `step` (from 1) of a run works on. Fragment p is sent after the steps t >= every at which
// t - floor(p every / fragments) is a multiple of `every`, and applied `delay` steps later. The `last` step of a run
// applies what is on its way, then sends and applies everything. Fragments sent up to step `merged` were applied then.
OuterWork outer_work(const OuterSteps& outer, std::int64_t step, bool last,
                     std::int64_t merged = 0);

// The last step before `step` after which the fragment was sent; `merged` if none was.
std::int64_t last_sent(const OuterSteps& outer, int fragment, std::int64_t step,
                       std::int64_t merged);

// By unit: its fragment, or -1 where it is not trained. Units whose names end in a number are layers, and layer i is of
// fragment i modulo their number. Each other unit, the largest first, joins the smallest fragment.
std::vector<int> fragments_of_units(const Program& program, int fragments);

// Whether the unit has outer weights: its recipe merges islands, and it is trained.
bool has_outer(const Recipe& recipe, const Unit& unit);

// Whether the mean of differences of the unit gets the mean of their norms: of layers, not of embeddings and heads.
bool merges_direction(const Program& program, const Recipe& recipe, const Unit& unit);

// Codes that merge the unit, of one sender for each island; nothing where differences travel as they are.
std::optional<CodedReduction> coded_merge(const PlanSet& plan, UnitId unit);

// Of the bytes of a coded merge, the share that goes to owners of slices before their mean comes back.
double share_to_owners(const CodedReduction& coded);
// Of the steps of a delay, those after which owners return the mean: as many as its share of the bytes. 0 without a delay.
int steps_to_owners(int delay, double share);

// Bytes of a rank's outer weights, velocity and residual, and of means and codes that a delay leaves in memory between
// steps.
std::int64_t outer_bytes(const PlanSet& plan, UnitId unit);
// Of what a merge takes in memory from its exchange to its outer step: 0 where a delay keeps it anyway.
std::int64_t merge_bytes(const PlanSet& plan, UnitId unit);

// The reason why islands of this recipe cannot merge on this mesh, if there is one.
std::optional<std::string> mistake_in_outer(const mesh::Mesh& mesh, const Recipe& recipe);

}  // namespace trireme::plan
