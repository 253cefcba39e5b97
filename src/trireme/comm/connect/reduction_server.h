// ReductionServer: adds what ranks send and sends the sum back, so that each of them sends and receives every byte once.
#pragma once

#include "trireme/comm/connect/processes.h"
#include "trireme/comm/rendezvous/config.h"

namespace trireme::comm {

// As server config.rank - config.size of the config.servers of a world of config.size ranks, all of which must call
// connect_processes() with the same number of servers and `route`. Adds chunk by chunk in the canonical tree, for every
// group that ranks announce. Returns when they have left. Throws Error{kPeerLost} with the cause where the world was
// aborted, and as connect_processes().
void serve_reductions(const RendezvousConfig& config, Route route = Route::kBest);

}  // namespace trireme::comm
