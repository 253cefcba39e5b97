#include "trireme/comm/processes.h"

#include <utility>

#include "trireme/base/error.h"
#include "trireme/comm/gloo/gloo_world.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/comm/rendezvous/rendezvous.h"
#include "trireme/comm/shm/shm_world.h"

namespace trireme::comm {

std::unique_ptr<World> connect_processes(const RendezvousConfig& config, Route route) {
  if (config.size == 1) return LocalWorld(1, config.timeout_s).rank(0);
  auto rendezvous = std::make_unique<Rendezvous>(config);
  if (route != Route::kGloo) {
    if (auto world = connect_shm(rendezvous)) return world;
    if (route == Route::kShm)
      fail(ErrorKind::kUsage,
           "rank {}: not all {} ranks can share memory: that needs one host, one user and one "
           "space of "
           "processes; leave the transport open, or take gloo",
           config.rank, config.size);
  }
  return connect_gloo(std::move(rendezvous));
}

}  // namespace trireme::comm
