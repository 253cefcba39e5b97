// Measured links of a world: every rank has the same table, and says which of its hosts it is on.
#pragma once

#include <vector>

#include "trireme/comm/rendezvous/rendezvous.h"

namespace trireme::comm {

// Host of each rank in config.links; empty where no rank has a table, and on servers. Every rank must call it. Throws Error{kUsage} where
// tables differ, or lack a host, and Error{kPeerLost}.
std::vector<int> places_in_links(Rendezvous& rendezvous);

}  // namespace trireme::comm
