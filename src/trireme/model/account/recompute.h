// Effect of a job's recompute.* on a program.
#pragma once

#include "trireme/config/job.h"
#include "trireme/plan/program.h"

namespace trireme::model {

// Marks the nodes that are recomputed whole or in parts. Placement of nodes follows, because it uses their costs.
// Throws Error{kUsage} for nodes and parts that do not exist.
plan::Program recompute_nodes(const config::Job& job, plan::Program program);

// On their stages: joins nodes to segments, or finds the cheapest choice that fits into recompute.memory. Throws
// Error{kOutOfMemory} where none does.
plan::Program recompute_stages(const config::Job& job, plan::Program program);

}  // namespace trireme::model
