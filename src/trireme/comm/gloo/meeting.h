// Meeting: how all ranks come to be connected by Gloo, whose ports take any connection for that of a rank.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "trireme/comm/rendezvous/rendezvous.h"

namespace trireme::comm {

// Two ranks have a connection for each direction of data. Gloo's permissions to send go against the data that they are
// for: on one connection they would stand in line behind the data of the other direction.
inline constexpr int kConnections = 2;
inline constexpr int kTagsOfAGroup = 4;  // the last of which no group uses
// The tag that c10d is given, which takes the connection by its remainder. `tag` is below 2^30.
constexpr int tag_on_wire(int tag, int from, int to) {
  return kConnections * tag + (from < to ? 1 : 0);
}

// Connects every rank to every other, once for each direction. Each connection is proven with a secret that ranks have from the store; where one
// fails, or a stranger has taken its place, all ranks try again together. Every rank must call it. Throws Error{kUsage}
// where the address or interface is none of this host's, Error{kPeerLost} where some attempts have failed.
c10::intrusive_ptr<c10d::ProcessGroupGloo> meet(Rendezvous& rendezvous);

}  // namespace trireme::comm
