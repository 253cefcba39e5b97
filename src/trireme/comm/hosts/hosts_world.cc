#include "trireme/comm/hosts/hosts_world.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

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
  HostsWorld(std::shared_ptr<ShmLink> memory, std::shared_ptr<GlooLink> network,
             std::vector<int> hosts)
      : World((memory ? memory->config() : network->config()).rank,
              (memory ? memory->config() : network->config()).size),
        network_(std::move(network)),
        memory_(std::move(memory)),
        hosts_(std::move(hosts)) {
    std::vector<int> all(hosts_.size());
    std::iota(all.begin(), all.end(), 0);
    via_ = via(all);
    if (memory_ && network_) via_ = fmt::format("hosts of {} ranks: {}", sizes(hosts_), via_);
  }
  std::string_view via() const override { return via_; }
  std::string_view via(const std::vector<int>& ranks) const override {
    const std::size_t near = near_to(ranks.front(), ranks).size();
    if (memory_ && near == ranks.size()) return "shared memory";
    if (levels_of(ranks, 0, hosts_))
      return "shared memory, and Gloo over TCP between hosts: sums host by host";
    if (std::ranges::all_of(ranks, [&](int rank) { return near_to(rank, ranks).size() == 1; }))
      return "Gloo over TCP";
    return "shared memory, and Gloo over TCP between hosts: sums rank by rank, as hosts hold no "
           "aligned blocks of one power of two";
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
                              const std::vector<int>& ranks, int rank) override {
    return std::make_unique<ComposedGroup>(name, ranks, rank, transport(key, ranks), common(),
                                           levels_of(ranks, rank, hosts_));
  }

  std::unique_ptr<Transport> transport(const std::string& key, const std::vector<int>& ranks) {
    std::vector<int> near = near_to(rank(), ranks);
    if (near.size() == 1 && network_) return make_gloo_transport(network_, key);
    const auto place = std::ranges::find(near, rank()) - near.begin();
    auto inside = make_shm_transport(memory_, key, near, static_cast<int>(place));
    if (near.size() == ranks.size()) return inside;
    return std::make_unique<RoutedTransport>(std::move(near), std::move(inside),
                                             make_gloo_transport(network_, key));
  }

  // Those of the ranks that are on one host with `rank`.
  std::vector<int> near_to(int rank, const std::vector<int>& ranks) const {
    const auto host = [&](int r) { return hosts_[static_cast<std::size_t>(r)]; };
    std::vector<int> near;
    std::ranges::copy_if(ranks, std::back_inserter(near),
                         [&](int other) { return host(other) == host(rank); });
    return near;
  }

  std::shared_ptr<GlooLink> network_;
  std::shared_ptr<ShmLink> memory_;  // goes first, while causes still travel
  std::vector<int> hosts_;
  std::string via_;
};

}  // namespace

std::unique_ptr<World> make_hosts_world(std::shared_ptr<ShmLink> memory,
                                        std::shared_ptr<GlooLink> network, std::vector<int> hosts) {
  return std::make_unique<HostsWorld>(std::move(memory), std::move(network), std::move(hosts));
}

}  // namespace trireme::comm
