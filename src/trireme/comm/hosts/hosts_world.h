// HostsWorld: ranks are processes of several hosts; data goes through shared memory inside each and over a network
// between them.
#pragma once

#include <memory>
#include <vector>

#include "trireme/comm/network.h"
#include "trireme/comm/shm/link.h"
#include "trireme/comm/world.h"

namespace trireme::comm {

// hosts[r] names the host of rank r, as `memory` joins them.
std::unique_ptr<World> make_hosts_world(std::shared_ptr<ShmLink> memory,
                                        std::shared_ptr<Network> network, std::vector<int> hosts);

}  // namespace trireme::comm
