// Proof of a plan before anything runs.
#pragma once

#include "trireme/plan/plan.h"

namespace trireme::plan {

// Proves the plan. The lists run to the end in a rendezvous simulation with bounded lanes: no deadlock, collectives of
// a group meet in the same order with the same arguments, sends meet receives. Nothing is used before it exists or
// after it is freed. Every gradient of every trainable unit is reduced exactly once over exactly its users. Nothing is
// left allocated at the end. Throws Error{kInternal} naming rank, line and reason.
void validate(const PlanSet& plan);

}  // namespace trireme::plan
