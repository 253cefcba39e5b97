// Rotary positions of GPT-NeoX, which turn a part of each head.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/config/job.h"

namespace trireme::config {

// Channels of a head that turn: neox.rotary_fraction of it, rounded down.
std::int64_t rotated_channels(const Job& job);

// Radians a position of channels i and i + head width / 2 of a resolved job; 0 where a channel does not turn.
std::vector<double> neox_frequencies(const Job& job);

}  // namespace trireme::config
