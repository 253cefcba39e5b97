// A world of processes, on one or many hosts, joined by LibTorch's Gloo over TCP alone.
#pragma once

#include <memory>

#include "trireme/comm/rendezvous/config.h"
#include "trireme/comm/world.h"

namespace trireme::comm {

class Rendezvous;

// Joins the world and returns this process's handle. Blocks until all ranks are there. Throws Error{kUsage} if rank 0
// cannot listen on the port or an address is wrong. Throws Error{kPeerLost} naming the missing ranks if not all arrive
// in time. The process must ignore SIGPIPE (Error{kInternal}): Gloo writes to ranks that may be gone. Destroying the
// handle is silent; rank 0 waits for the others (30 s at most) because it hosts the store.
std::unique_ptr<World> connect_gloo(const RendezvousConfig& config);
std::unique_ptr<World> connect_gloo(std::shared_ptr<Rendezvous> rendezvous);

// Process-wide, for main(): from 2.x on c10d prints a stack trace whenever its store's host is gone.
// Every such loss is an Error here, which names more in one line.
void silence_c10d();

}  // namespace trireme::comm
