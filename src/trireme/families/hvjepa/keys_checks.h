// Chunks of clips: what their tower must have.
#pragma once

#include "trireme/config/job.h"

namespace trireme::config {

// Throws Error{kUsage} naming the key.
void check_chunks(const Job& job);
// The tower that a family of frozen ones has, and its chunks. Throws the same.
void resolve_frozen_tower(Job& job);

}  // namespace trireme::config
