// How a process joins a world: what connects it to ranks of its own host and of others.
#pragma once

#include <memory>
#include <vector>

#include "trireme/comm/connect/processes.h"
#include "trireme/comm/network.h"
#include "trireme/comm/rendezvous/rendezvous.h"
#include "trireme/comm/shm/link.h"

namespace trireme::comm {

struct Joined {
  std::shared_ptr<Rendezvous> rendezvous;
  std::vector<int> hosts;            // of each rank, without servers
  std::shared_ptr<ShmLink> memory;   // of this host's ranks, where they share it
  std::shared_ptr<Network> network;  // null where all ranks share memory
};

// Of config.size ranks and config.servers servers after them. Throws as connect_processes().
Joined join_world(const RendezvousConfig& config, Route route);

}  // namespace trireme::comm
