// HostsWorld: ranks are processes of one or several hosts; data goes through shared memory inside each and over a network
// between them.
#pragma once

#include <memory>
#include <vector>

#include "trireme/comm/network.h"
#include "trireme/comm/shm/link.h"
#include "trireme/comm/world.h"

namespace trireme::comm {

// hosts[r] is the host of rank r. `memory` joins the ranks of a host; it is null if each rank has its own. `network` is
// null if all are on one.
std::unique_ptr<World> make_hosts_world(int rank, std::vector<int> hosts,
                                        std::shared_ptr<ShmLink> memory,
                                        std::shared_ptr<Network> network);
// Where each rank has its own host.
std::unique_ptr<World> make_network_world(int rank, int size, std::shared_ptr<Network> network);

}  // namespace trireme::comm
