// What families with an encoder of V-JEPA 2 have in common.
#pragma once

#include <cstdint>
#include <string_view>

#include "trireme/config/job.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::config {

// All throw Error{kUsage} naming the key.
// Rotary positions over time, row and column turn pairs of channels on each axis.
void check_rotary_heads(std::string_view section, std::int64_t hidden, std::int64_t heads);
// Its sizes and the data it reads.
void resolve_video_tower(Job& job);
void resolve_jepa(Job& job, const DatasetFacts& data);

}  // namespace trireme::config
