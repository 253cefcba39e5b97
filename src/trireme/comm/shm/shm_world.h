// ShmWorld: ranks are processes of one host; data goes through memory they share.
#pragma once

#include <memory>

#include "trireme/comm/shm/link.h"
#include "trireme/comm/world.h"

namespace trireme::comm {

// Of the link's ranks, which are the world's.
std::unique_ptr<World> make_shm_world(std::shared_ptr<ShmLink> link);

}  // namespace trireme::comm
