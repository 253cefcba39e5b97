// GlooWorld: ranks are processes, on one or many hosts, joined by LibTorch's Gloo over TCP.
#pragma once

#include <memory>
#include <string>

#include "trireme/comm/world.h"

namespace trireme::comm {

struct GlooConfig {
  int rank = 0;
  int size = 1;
  std::string host = "127.0.0.1";  // where the key-value store listens
  int port = 29500;
  bool host_store = true;          // rank 0 hosts the store; false: a launcher already does
  std::string run_id = "trireme";  // names the run in a store that outlives it; fresh per restart
  std::string interface {};        // network interface of the data; empty: the one towards `host`
  double timeout_s = 300;          // a rank silent for longer is lost
  double connect_timeout_s = 120;  // for all ranks to come together
};

// Joins the world and returns this process's handle. Blocks until all ranks are there. Throws
// Error{kUsage} if rank 0 cannot listen on the port or an address is wrong, Error{kPeerLost} naming
// the missing ranks if not all come in time. Destroying the handle is silent; rank 0 waits for the
// others (30 s at most) because it hosts the store.
std::unique_ptr<World> connect_gloo(const GlooConfig& config);

// Process-wide, for main(): from 2.x on c10d prints a stack trace whenever its store's host is gone.
// Every such loss is an Error here, which names more in one line.
void silence_c10d();

}  // namespace trireme::comm
