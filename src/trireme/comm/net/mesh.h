// How ranks come to be connected by streams that each side has proven to belong to the other.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "trireme/comm/net/stream.h"
#include "trireme/comm/rendezvous/rendezvous.h"

namespace trireme::comm {

// Streams to other ranks, by rank; as many to each.
using Streams = std::map<int, std::vector<std::unique_ptr<Stream>>>;

// Connects this rank to every one of `peers` by `streams` connections each: to lower ranks it dials, from higher ranks
// it accepts. Every rank of the world must call it, with lists that agree. A stranger that connects is dropped. Both
// ends of a connection show by HMACs over fresh nonces that they know the secret, which is the agent's token or else
// one that rank 0 spreads through the store. With `tls` this happens inside TLS. Throws Error{kUsage} if
// config.interface is not on this host, Error{kPeerLost} naming ranks that have not connected within
// config.connect_timeout_s.
Streams connect_streams(Rendezvous& rendezvous, const std::vector<int>& peers, int streams,
                        const Tls* tls);

}  // namespace trireme::comm
