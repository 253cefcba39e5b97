// Rates of reduction servers, and groups that they serve, in the store of a generation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/comm/algorithm/algorithm.h"
#include "trireme/comm/rendezvous/rendezvous.h"

namespace trireme::comm {

// Every server has given its rate, which all read. Throws Error{kPeerLost}, as the other functions.
std::vector<algorithm::Server> read_servers(Rendezvous& rendezvous);

// Ranks that will send servers what they want added, over the channel `key`.
struct ServedGroup {
  std::string key;
  std::vector<int> ranks;
};
void announce_served(Rendezvous& rendezvous, const std::string& key, const std::vector<int>& ranks);
// The group that was announced as the `number`-th, if one has been.
std::optional<ServedGroup> served_group(Rendezvous& rendezvous, std::int64_t number);

}  // namespace trireme::comm
