// What the ranks of a job hold, put together.
#pragma once

#include "tests/harness/jobs.h"
#include "trireme/exec/session.h"

namespace trireme::harness {

// Puts what a rank holds of every state to its place; of one rank at a time.
void place_states(exec::Session& session, JobTrace& trace);

}  // namespace trireme::harness
