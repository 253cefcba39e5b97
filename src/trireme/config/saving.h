// How checkpoints are written.
#pragma once

#include "trireme/config/job.h"

namespace trireme::config {

// Whether those of checkpoint.every are copied and written behind training: where checkpoint.async says so, but not of a
// model whose states or parameters wait on a disk, which a copy would bring back into memory.
bool saves_behind(const Job& job);

// Keys of snapshots in memory that contradict others. Throws Error{kUsage}.
void check_memory(const Job& job);

}  // namespace trireme::config
