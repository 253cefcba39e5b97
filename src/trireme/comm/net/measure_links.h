// Measures the links between the hosts of a world by streams of their own.
#pragma once

#include "trireme/comm/algorithm/links.h"
#include "trireme/comm/rendezvous/rendezvous.h"

namespace trireme::comm {

// One rank on each host; every rank must call it, and gets the whole table, with hosts in rank order by
// config.link_name. Each ordered pair sends alone for `seconds`, then all send to all at once: what a host sends and
// receives then, or with one other host if that is more, are its rates. Streams are those of training: TLS where the ranks
// have a token. Throws Error{kUsage} where two hosts have one name, Error{kPeerLost} as Mesh.
algorithm::Links measure_links(Rendezvous& rendezvous, double seconds);

}  // namespace trireme::comm
