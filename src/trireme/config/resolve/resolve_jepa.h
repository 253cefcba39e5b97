// V-JEPA 2 and what is built on its encoder: what sizes, masks and data must have.
#pragma once

#include "trireme/config/job.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::config {

// Resolves families jepa, hvjepa, probe and jepa_ac. Throws Error{kUsage} naming the key.
void resolve_jepa(Job& job, const DatasetFacts& data);

// The tower that a family of frozen ones has, and its chunks. Throws the same.
void resolve_frozen_tower(Job& job);

}  // namespace trireme::config
