// What recompute.* of a job makes of a program.
#pragma once

#include "trireme/config/job.h"
#include "trireme/plan/program.h"

namespace trireme::model {

// Before nodes are placed, which so goes by what they cost: which run again whole, and which in parts. Throws
// Error{kUsage} for nodes and parts that there are not.
plan::Program recompute_nodes(const config::Job& job, plan::Program program);

// On their stages: joins nodes to segments, or finds the cheapest choice that fits into recompute.memory. Throws
// Error{kNoRoom} where none does.
plan::Program recompute_stages(const config::Job& job, plan::Program program);

}  // namespace trireme::model
