// The world of ranks that a network joins, all of them.
#pragma once

#include <memory>

#include "trireme/comm/network.h"
#include "trireme/comm/world.h"

namespace trireme::comm {

std::unique_ptr<World> make_network_world(int rank, int size, std::shared_ptr<Network> network);

}  // namespace trireme::comm
