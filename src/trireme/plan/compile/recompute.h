// Recomputed nodes of a program, whole or in parts. The program stores the decisions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/plan/program.h"

namespace trireme::plan {

// Nodes that can be recomputed whole: they have a backward and are no loss, whose backward follows its forward at once.
std::vector<NodeId> recomputable(const Program& program);

// Whether running it again whole gives memory back for work: an embedding that keeps where its rows lie does nothing
// that is worth it.
bool pays_to_recompute(const Node& node);

// Parts of these nodes that would free memory if left out: those of nodes with a backward, and kept so far.
std::vector<std::string> parts_to_leave_out(const Program& program,
                                            const std::vector<NodeId>& nodes);

// Each of these as a segment of its own. Nodes that have one already are left alone.
void recompute_each(Program& program, const std::vector<NodeId>& nodes);

// Joins neighbouring recomputed nodes to segments of `every`, counted from the first of a chunk. A node that has a
// backward and keeps its activations separates segments.
void join_segments(Program& program, int every);

// These nodes leave the part out, if it keeps something for their backward and they are not recomputed whole. Returns
// the number of nodes that do.
int recompute_part(Program& program, const std::vector<NodeId>& nodes, std::string_view part);

// "12 of 14 nodes whole in 4 segments, norms in 2", or "" where everything is kept.
std::string recomputation_text(const Program& program);

}  // namespace trireme::plan
