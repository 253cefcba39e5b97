// What one rank does for all, or each for itself, however long it takes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/comm/world.h"

namespace trireme::checkpoint {

// Rank 0 does it aside while ranks go on hearing of one another: a silent peer would count as lost. Every rank gets its
// text; what it throws is Error{kData} on every rank. Collective.
std::string on_rank_zero(comm::World& world, const std::function<std::string()>& body);

// The same by every rank for itself: all get the texts of all, by rank. What one throws is Error{kData} on every rank,
// which it names.
std::vector<std::string> on_every_rank(comm::World& world,
                                       const std::function<std::string()>& body);

}  // namespace trireme::checkpoint
