#include "trireme/comm/hosts/hosts_world.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "trireme/base/text.h"
#include "trireme/comm/composed_group.h"
#include "trireme/comm/hostwise.h"

namespace trireme::comm {
namespace {

// Messages to ranks of this host take one transport, those to others another.
class RoutedTransport : public Transport {
 public:
  RoutedTransport(std::vector<int> near, std::unique_ptr<Transport> inside,
                  std::unique_ptr<Transport> between)
      : near_(std::move(near)), inside_(std::move(inside)), between_(std::move(between)) {}

  void record_in(watch::Recorder& recorder, int track) override {
    inside_->record_in(recorder, track);
    between_->record_in(recorder, track);
  }
  std::unique_ptr<Outgoing> send(int rank, const Stamp& stamp, std::byte* data) override {
    return towards(rank).send(rank, stamp, data);
  }
  std::unique_ptr<Incoming> recv(int rank) override { return towards(rank).recv(rank); }
  void abort(const std::string& cause) override { between_->abort(cause); }
  std::optional<std::string> cause() override { return between_->cause(); }

 private:
  Transport& towards(int rank) {
    return std::ranges::find(near_, rank) != near_.end() ? *inside_ : *between_;
  }

  std::vector<int> near_;
  std::unique_ptr<Transport> inside_;
  std::unique_ptr<Transport> between_;
};

// As `ranks`, and to servers over a channel of their own.
class ServedTransport : public Transport {
 public:
  ServedTransport(std::unique_ptr<Transport> ranks, std::unique_ptr<Transport> servers, int first)
      : ranks_(std::move(ranks)), servers_(std::move(servers)), first_(first) {}

  void record_in(watch::Recorder& recorder, int track) override {
    ranks_->record_in(recorder, track);
    servers_->record_in(recorder, track);
  }
  std::unique_ptr<Outgoing> send(int rank, const Stamp& stamp, std::byte* data) override {
    return (rank < first_ ? ranks_ : servers_)->send(rank, stamp, data);
  }
  std::unique_ptr<Incoming> recv(int rank) override { return ranks_->recv(rank); }
  void abort(const std::string& cause) override { ranks_->abort(cause); }
  std::optional<std::string> cause() override { return ranks_->cause(); }

 private:
  std::unique_ptr<Transport> ranks_, servers_;
  int first_;
};

// "2+2"
std::string sizes(const std::vector<int>& hosts) {
  std::map<int, int> counts;
  for (int host : hosts) ++counts[host];
  std::string list;
  for (const auto& [host, count] : counts)
    list += fmt::format("{}{}", list.empty() ? "" : "+", count);
  return list;
}

class HostsWorld : public World {
  // The link by which causes travel to all ranks.
  template <typename Use>
  auto with_link(const Use& use) const {
    return network_ ? use(*network_) : use(*memory_);
  }

 public:
  HostsWorld(int rank, std::vector<int> hosts, std::shared_ptr<ShmLink> memory,
             std::shared_ptr<Network> network)
      : World(rank, static_cast<int>(hosts.size())),
        network_(std::move(network)),
        memory_(std::move(memory)),
        hosts_(std::move(hosts)) {
    if (network_) between_ = network_->via();
    const std::string both = fmt::format("shared memory, and {} between hosts: sums ", between_);
    by_host_ = both + "host by host";
    by_rank_ = both + "rank by rank, as hosts hold no aligned blocks of one power of two";
    std::vector<int> all(hosts_.size());
    std::iota(all.begin(), all.end(), 0);
    via_ = via(all);
    const std::size_t servers = network_ ? network_->servers().size() : 0;
    if (memory_ && network_) via_ = fmt::format("hosts of {} ranks: {}", sizes(hosts_), via_);
    if (servers > 0)
      via_ += fmt::format(", sums of all by {}",
                          counted(static_cast<std::int64_t>(servers), "reduction server"));
  }
  ~HostsWorld() override {
    if (rank() != 0 || !network_ || network_->servers().empty() || network_->cause()) return;
    try {
      const auto last = network_->transport(kLastChannel, network_->servers().size());
      for (const algorithm::Server& server : network_->servers())
        last->send(server.rank, {.sequence = 0}, nullptr)->finish();
    } catch (const Lost&) {
      // It has left before.
    }
  }
  std::string_view via() const override { return via_; }
  std::string_view via(const std::vector<int>& ranks) const override {
    const std::size_t near = near_to(ranks.front(), ranks).size();
    if (memory_ && near == ranks.size()) return "shared memory";
    if (levels_of(ranks, 0, hosts_)) return by_host_;
    if (std::ranges::all_of(ranks, [&](int rank) { return near_to(rank, ranks).size() == 1; }))
      return between_;
    return by_rank_;
  }
  std::int64_t network_bytes() const override { return network_ ? network_->bytes_sent() : 0; }
  void abort(const std::string& cause) override {
    with_link([&](auto& link) { link.abort(cause); });
  }
  std::optional<std::string> cause() override {
    return with_link([](auto& link) { return link.cause(); });
  }
  void check_current() override {
    with_link([](auto& link) { link.check_current(); });
  }

 private:
  std::unique_ptr<Group> open(const std::string& name, const std::string& key,
                              const std::vector<int>& ranks, int rank,
                              const algorithm::Choice& choice) override {
    const auto levels = levels_of(ranks, rank, hosts_);
    // A group inside one of several hosts has nothing between hosts.
    const bool inside = network_ && near_to(this->rank(), ranks).size() == ranks.size();
    algorithm::Choice chosen = inside ? algorithm::Choice() : choice;
    const bool plain =
        chosen.kind == algorithm::Kind::kAuto || chosen.kind == algorithm::Kind::kDirect;
    if (!plain && via(ranks) == by_rank_)
      fail(ErrorKind::kUsage,
           "network.algorithm={}: group {} has hosts without aligned blocks of one power of two of "
           "ranks; start equally many on each host, or choose direct",
           algorithm::name(chosen.kind), name);
    if (!inside && chosen.served)
      route(chosen, levels ? levels->across : ranks, levels.has_value());
    std::unique_ptr<Transport> transport = transport_of(key, ranks);
    if (chosen.served && chosen.kind == algorithm::Kind::kAuto && network_)
      chosen.servers = network_->servers();
    if (!chosen.servers.empty()) {
      // Of every host the ranks that have one place there, or all of them.
      const std::vector<int>& senders = levels ? levels->across : ranks;
      const std::string channel = fmt::format("{} served {}", key, levels ? levels->place : 0);
      if (senders.front() == this->rank()) network_->announce(channel, senders);
      transport = std::make_unique<ServedTransport>(
          std::move(transport), network_->transport(channel, chosen.servers.size()), size());
    }
    return std::make_unique<ComposedGroup>(name, ranks, rank, std::move(transport), common(),
                                           levels, chosen);
  }

  // As measured links of the participants' hosts suggest: the algorithm where it is open, the order of a ring, and shares
  // of direct sums.
  void route(algorithm::Choice& chosen, const std::vector<int>& among, bool by_host) const {
    using algorithm::Kind;
    const bool apart =
        std::ranges::all_of(among, [&](int rank) { return near_to(rank, among).size() == 1; });
    const auto links = network_ && apart ? network_->links(among) : std::nullopt;
    if (!links || (by_host && chosen.kind == Kind::kDirect)) return;
    const bool open = chosen.kind == Kind::kAuto && network_->servers().empty();
    const algorithm::Route route =
        open ? algorithm::choose(*links, chosen.canonical) : algorithm::routed(*links, chosen.kind);
    chosen.kind = route.kind;
    chosen.order = route.order;
    chosen.shares = route.shares;
  }

  std::unique_ptr<Transport> transport_of(const std::string& key, const std::vector<int>& ranks) {
    std::vector<int> near = near_to(rank(), ranks);
    if (near.size() == 1 && network_) return network_->transport(key, ranks.size() - near.size());
    const auto place = std::ranges::find(near, rank()) - near.begin();
    auto inside = make_shm_transport(memory_, key, near, static_cast<int>(place));
    if (near.size() == ranks.size()) return inside;
    auto between = network_->transport(key, ranks.size() - near.size());
    return std::make_unique<RoutedTransport>(std::move(near), std::move(inside),
                                             std::move(between));
  }

  // Those of the ranks that are on one host with `rank`.
  std::vector<int> near_to(int rank, const std::vector<int>& ranks) const {
    const auto host = [&](int r) { return hosts_[r]; };
    std::vector<int> near;
    std::ranges::copy_if(ranks, std::back_inserter(near),
                         [&](int other) { return host(other) == host(rank); });
    return near;
  }

  std::shared_ptr<Network> network_;
  std::shared_ptr<ShmLink> memory_;  // goes first, while causes still travel
  std::vector<int> hosts_;
  std::string between_, by_host_, by_rank_, via_;
};

}  // namespace

std::unique_ptr<World> make_hosts_world(int rank, std::vector<int> hosts,
                                        std::shared_ptr<ShmLink> memory,
                                        std::shared_ptr<Network> network) {
  return std::make_unique<HostsWorld>(rank, std::move(hosts), std::move(memory),
                                      std::move(network));
}

std::unique_ptr<World> make_network_world(int rank, int size, std::shared_ptr<Network> network) {
  std::vector<int> hosts(static_cast<std::size_t>(size));
  std::iota(hosts.begin(), hosts.end(), 0);
  return make_hosts_world(rank, std::move(hosts), nullptr, std::move(network));
}

}  // namespace trireme::comm
