#include "trireme/comm/processes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/comm/gloo/gloo_world.h"
#include "trireme/comm/gloo/link.h"
#include "trireme/comm/hosts/hosts_world.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/comm/net/link.h"
#include "trireme/comm/rendezvous/rendezvous.h"

namespace trireme::comm {
namespace {

// What joins ranks of different hosts.
std::shared_ptr<Network> make_network(const std::shared_ptr<Rendezvous>& rendezvous, Route route) {
  const RendezvousConfig& config = rendezvous->config();
  if (route == Route::kGloo) return make_gloo_network(std::make_shared<GlooLink>(rendezvous));
  if (route == Route::kTls && config.agent_token.empty())
    fail(ErrorKind::kUsage,
         "rank {}: TLS takes its keys from the token of `trireme launch`, which has not started "
         "this rank; take tcp, or start ranks by `trireme launch`",
         config.rank);
  const bool tls = route != Route::kTcp && !config.agent_token.empty();
  return std::make_shared<SocketLink>(rendezvous, SocketLink::Options{.tls = tls});
}

}  // namespace

std::unique_ptr<World> connect_processes(const RendezvousConfig& config, Route route) {
  if (config.size == 1) return LocalWorld(1, config.timeout_s).rank(0);
  const auto rendezvous = std::make_shared<Rendezvous>(config);
  if (route != Route::kBest && route != Route::kShm)
    return make_network_world(config.rank, config.size, make_network(rendezvous, route));
  const std::vector<int> hosts = rendezvous->ranks_by_text("host", this_host() + config.host_name);
  const bool shared = std::set<int>(hosts.begin(), hosts.end()).size() < hosts.size();
  auto memory = shared ? ShmLink::join(rendezvous, hosts[config.rank]) : nullptr;
  if (memory && std::ranges::count(hosts, 0) == config.size) {
    rendezvous->watch({});
    return make_hosts_world(config.rank, hosts, std::move(memory), nullptr);
  }
  if (route == Route::kShm)
    fail(ErrorKind::kUsage,
         "rank {}: not all {} ranks can share memory: that needs one host, one user and one PID "
         "namespace; leave the transport open, or take gloo",
         config.rank, config.size);
  auto network = make_network(rendezvous, route);
  if (!memory) return make_network_world(config.rank, config.size, std::move(network));
  return make_hosts_world(config.rank, hosts, std::move(memory), std::move(network));
}

}  // namespace trireme::comm
