// How checkpoints are written.
#pragma once

#include "trireme/config/job.h"

namespace trireme::config {

// Whether the checkpoints of checkpoint.every are copied and written asynchronously. checkpoint.async decides, except
// that models with states or parameters on a disk are written at once, because a copy would bring them back into
// memory.
bool saves_async(const Job& job);

// Whether states or parameters are on a disk between their uses.
bool waits_on_disk(const Job& job);

}  // namespace trireme::config
