// V-JEPA 2 and what is built on its encoder: what sizes, masks and data must have.
#pragma once

#include "trireme/config/job.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::config {

// Families jepa, hvjepa, probe and jepa_ac. All throw Error{kUsage} naming the key.
void resolve_jepa(Job& job, const DatasetFacts& data);
void resolve_hvjepa(Job& job, const DatasetFacts& data);
void resolve_probe(Job& job, const DatasetFacts& data);
void resolve_action(Job& job, const DatasetFacts& data);

// The tower that a family of frozen ones has, and its chunks. Throws the same.
void resolve_frozen_tower(Job& job);

}  // namespace trireme::config
