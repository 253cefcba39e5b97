#include "trireme/comm/connect/processes.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/comm/connect/join.h"
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

Joined join_world(const RendezvousConfig& given, Route route) {
  RendezvousConfig config = given;
  config.size += config.servers;
  const bool serves = config.rank >= given.size;
  // A server has no part in the ranks' memory.
  if (serves) config.host_name = fmt::format("reduction server {}", config.rank);
  if (config.servers > 0 && (route == Route::kGloo || route == Route::kShm))
    fail(ErrorKind::kUsage,
         "rank {}: reduction servers need TRIREME_TRANSPORT=best, tcp or tls; unset it, or end "
         "`trireme reduce-server`",
         config.rank);
  Joined joined{.rendezvous = std::make_shared<Rendezvous>(config)};
  joined.hosts.resize(static_cast<std::size_t>(given.size));
  std::iota(joined.hosts.begin(), joined.hosts.end(), 0);
  if (route == Route::kBest || route == Route::kShm) {
    std::vector<int> hosts =
        joined.rendezvous->ranks_by_text("host", this_host() + config.host_name);
    const bool shared = std::set<int>(hosts.begin(), hosts.end()).size() < hosts.size();
    if (shared && serves)
      joined.rendezvous->all_agree("shared memory", true);
    else if (shared)
      joined.memory = ShmLink::join(joined.rendezvous, hosts[config.rank]);
    if (joined.memory && std::ranges::count(hosts, 0) == config.size) {
      joined.rendezvous->watch({});
      joined.hosts = std::move(hosts);
      return joined;
    }
    if (route == Route::kShm)
      fail(ErrorKind::kUsage,
           "rank {}: not all {} ranks can share memory: that needs one host, one user and one PID "
           "namespace; leave the transport open, or take gloo",
           config.rank, config.size);
    hosts.resize(joined.hosts.size());
    if (joined.memory) joined.hosts = std::move(hosts);
  }
  joined.network = make_network(joined.rendezvous, route);
  return joined;
}

std::unique_ptr<World> connect_processes(const RendezvousConfig& config, Route route) {
  if (config.size == 1 && config.servers == 0) return LocalWorld(1, config.timeout_s).rank(0);
  Joined joined = join_world(config, route);
  return make_hosts_world(config.rank, std::move(joined.hosts), std::move(joined.memory),
                          std::move(joined.network));
}

}  // namespace trireme::comm
