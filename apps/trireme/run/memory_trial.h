// Two steps of a job in processes of their own, for what they need of memory.
#pragma once

#include <cstdint>
#include <optional>

#include "apps/trireme/environment.h"
#include "trireme/base/fs.h"
#include "trireme/job/runs/plan_job.h"

namespace trireme::app {

// The most that a rank's tensors held; nothing if a rank did not come that far for want of memory. Throws Error of what else
// went wrong. Scratch files have no names and lie above the run directory `run`, which is not touched.
std::optional<std::int64_t> try_memory(const Planned& planned, const Place& place, const Path& run);

}  // namespace trireme::app
