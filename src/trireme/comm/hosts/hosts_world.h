// HostsWorld: ranks are processes of one or several hosts; data goes through shared memory inside each and over Gloo
// between them.
#pragma once

#include <memory>
#include <vector>

#include "trireme/comm/gloo/link.h"
#include "trireme/comm/shm/link.h"
#include "trireme/comm/world.h"

namespace trireme::comm {

// hosts[r] names the host of rank r, as `memory` joins them; null where each rank has its own. `network` is null where all
// are on one.
std::unique_ptr<World> make_hosts_world(std::shared_ptr<ShmLink> memory,
                                        std::shared_ptr<GlooLink> network, std::vector<int> hosts);

}  // namespace trireme::comm
