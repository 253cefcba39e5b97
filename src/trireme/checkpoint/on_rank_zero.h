// Work of any duration that one rank does for all, or each for itself.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/comm/world.h"

namespace trireme::checkpoint {

// Rank 0 runs it in another thread, while ranks keep exchanging signs of life: a silent peer would count as lost. Every
// rank gets the text that it returns; an exception is Error{kData} on every rank. Collective.
std::string on_rank_zero(comm::World& world, const std::function<std::string()>& body);

// The same by every rank for itself: all get the texts of all, by rank. An exception is Error{kData} on every rank and
// names the rank.
std::vector<std::string> on_every_rank(comm::World& world,
                                       const std::function<std::string()>& body);

}  // namespace trireme::checkpoint
