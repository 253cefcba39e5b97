#include "trireme/comm/rendezvous/served_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <sstream>

#include "trireme/base/error.h"

namespace trireme::comm {
namespace {

constexpr char kGroups[] = "served";

std::string place_of(std::int64_t number) { return fmt::format("{}/{}", kGroups, number); }

template <typename Use>
auto with_store(Rendezvous& rendezvous, const Use& use) {
  try {
    return use(*rendezvous.store());
  } catch (const std::exception& e) {
    fail(ErrorKind::kPeerLost, "rank {}: the key-value store went away: {}",
         rendezvous.config().rank, gist(e));
  }
}

}  // namespace

std::vector<algorithm::Server> read_servers(Rendezvous& rendezvous) {
  const RendezvousConfig& config = rendezvous.config();
  std::vector<algorithm::Server> servers;
  for (int rank = config.size - config.servers; rank < config.size; ++rank) {
    const std::string mine = fmt::format("{}", config.server_rate);
    servers.push_back({.rank = rank, .rate = std::stod(rendezvous.text_of(rank, "rate", mine))});
  }
  return servers;
}

void announce_served(Rendezvous& rendezvous, const std::string& key,
                     const std::vector<int>& ranks) {
  const std::string text = fmt::format("{}\n{}", fmt::join(ranks, " "), key);
  with_store(rendezvous, [&](c10d::Store& store) {
    const std::int64_t number = store.add(kGroups, 1) - 1;
    store.set(place_of(number), std::vector<std::uint8_t>(text.begin(), text.end()));
  });
}

std::optional<ServedGroup> served_group(Rendezvous& rendezvous, std::int64_t number) {
  return with_store(rendezvous, [&](c10d::Store& store) -> std::optional<ServedGroup> {
    if (!store.check({place_of(number)})) return std::nullopt;
    const std::vector<std::uint8_t> bytes = store.get(place_of(number));
    const std::string text(bytes.begin(), bytes.end());
    const std::size_t line = text.find('\n');
    std::istringstream words(text.substr(0, line));
    return ServedGroup{text.substr(line + 1), {std::istream_iterator<int>(words), {}}};
  });
}

}  // namespace trireme::comm
