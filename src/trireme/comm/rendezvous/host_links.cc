#include "trireme/comm/rendezvous/host_links.h"

#include <algorithm>
#include <string>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"

namespace trireme::comm {
namespace {

std::string digest_of(const algorithm::Links& links) {
  std::string text;
  for (const algorithm::HostLink& host : links.hosts)
    text += fmt::format("{} {} {} {}\n", host.name, host.up, host.down, host.latency_s);
  for (const algorithm::PairLink& pair : links.pairs)
    text += fmt::format("{} {} {} {} {}\n", pair.from, pair.to, pair.rate, pair.latency_s,
                        pair.relayed);
  text += fmt::format("{}\n", links.relay);
  return links.hosts.empty() ? "none" : fmt::format("{:016x}", hash64(text));
}

}  // namespace

std::vector<int> places_in_links(Rendezvous& rendezvous) {
  const RendezvousConfig& config = rendezvous.config();
  if (config.rank >= config.size - config.servers) return {};
  const std::string mine = digest_of(config.links);
  const std::string first = rendezvous.text_of(0, "links", mine);
  const auto key = [](int rank) { return fmt::format("host of links/{}", rank); };
  const auto refuse = [](int rank) {
    fail(ErrorKind::kUsage,
         "rank {} and rank 0 have different tables of links; give the same file with --links on "
         "every host, or on none",
         rank);
  };
  const std::string differs = "\n";  // which is no name: the others do not wait either
  rendezvous.text_of(config.rank, key(config.rank), mine == first ? config.link_name : differs);
  if (mine != first) refuse(config.rank);
  if (config.links.hosts.empty()) return {};
  std::vector<int> places;
  for (int rank = 0; rank < config.size - config.servers; ++rank) {
    const std::string name = rendezvous.text_of(rank, key(rank), config.link_name);
    if (name == differs) refuse(rank);
    const auto host = std::ranges::find(config.links.hosts, name, &algorithm::HostLink::name);
    if (host == config.links.hosts.end())
      fail(ErrorKind::kUsage,
           "rank {} is on host {}, which --links does not name; measure again with trireme links",
           rank, name);
    places.push_back(static_cast<int>(host - config.links.hosts.begin()));
  }
  return places;
}

}  // namespace trireme::comm
