#include "trireme/comm/processes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/comm/gloo/gloo_world.h"
#include "trireme/comm/hosts/hosts_world.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/comm/rendezvous/rendezvous.h"
#include "trireme/comm/shm/shm_world.h"

namespace trireme::comm {

std::unique_ptr<World> connect_processes(const RendezvousConfig& config, Route route) {
  if (config.size == 1) return LocalWorld(1, config.timeout_s).rank(0);
  const auto rendezvous = std::make_shared<Rendezvous>(config);
  if (route == Route::kGloo) return connect_gloo(rendezvous);
  const std::vector<int> hosts = rendezvous->alike("host", this_host() + config.host_name);
  const bool shared = std::set<int>(hosts.begin(), hosts.end()).size() < hosts.size();
  auto memory =
      shared ? ShmLink::join(rendezvous, hosts[static_cast<std::size_t>(config.rank)]) : nullptr;
  if (memory && std::ranges::count(hosts, 0) == config.size) {
    rendezvous->watch({});
    return make_shm_world(std::move(memory));
  }
  if (route == Route::kShm)
    fail(ErrorKind::kUsage,
         "rank {}: not all {} ranks can share memory: that needs one host, one user and one PID "
         "namespace; leave the transport open, or take gloo",
         config.rank, config.size);
  if (!memory) return connect_gloo(rendezvous);
  return make_hosts_world(std::move(memory), std::make_shared<GlooLink>(rendezvous), hosts);
}

}  // namespace trireme::comm
