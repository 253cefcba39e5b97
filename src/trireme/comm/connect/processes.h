// From processes that know where to meet to the fastest world they can have.
#pragma once

#include <memory>

#include "trireme/comm/rendezvous/config.h"
#include "trireme/comm/world.h"

namespace trireme::comm {

enum class Route {
  kBest,  // shared memory inside hosts, where all their ranks can open it; between hosts TLS where
          // an agent has started the ranks, TCP otherwise
  kShm,
  kTcp,
  kTls,  // with keys from the agent's token
  kGloo,
};

// Joins the world and returns this process's handle; every rank must ask for the same route. Blocks until
// all ranks are there. The process must ignore SIGPIPE, or a write to a rank that is gone would end it. Throws as
// connect_gloo, and Error{kUsage} where shared memory is asked for and cannot be.
std::unique_ptr<World> connect_processes(const RendezvousConfig& config,
                                         Route route = Route::kBest);

}  // namespace trireme::comm
