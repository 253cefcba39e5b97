// From processes that know where to meet to the fastest world they can have.
#pragma once

#include <memory>

#include "trireme/comm/rendezvous/config.h"
#include "trireme/comm/world.h"

namespace trireme::comm {

enum class Route {
  kBest,  // shared memory inside hosts, where all their ranks can open it; Gloo for the rest
  kShm,
  kGloo,
};

// Joins the world and returns this process's handle; every rank must ask for the same route. Blocks until
// all ranks are there. The process must ignore SIGPIPE, or Gloo's writes to a rank that is gone would end it. Throws as
// connect_gloo, and Error{kUsage} where shared memory is asked for and cannot be.
std::unique_ptr<World> connect_processes(const RendezvousConfig& config,
                                         Route route = Route::kBest);

}  // namespace trireme::comm
