// ShmWorld: ranks are processes of one host; data goes through memory they share.
#pragma once

#include <memory>

#include "trireme/comm/world.h"

namespace trireme::comm {

class Rendezvous;

// As connect_gloo, for ranks that can share memory: of one host and one user. Else it returns nothing, on
// every rank, and `rendezvous` is as it was.
std::unique_ptr<World> connect_shm(std::unique_ptr<Rendezvous>& rendezvous);

}  // namespace trireme::comm
