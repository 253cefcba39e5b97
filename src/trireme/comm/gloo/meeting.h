// Meeting: how all ranks come to be connected by Gloo, whose ports take any connection for that of a rank.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "trireme/comm/rendezvous/rendezvous.h"

namespace trireme::comm {

// Connects every rank to every other. Each connection is authenticated with a secret that ranks get from the store. If
// one fails, or a stranger has taken its place, all ranks try again together. Every rank must call it. Throws
// Error{kUsage} if the address or interface is not on this host, Error{kPeerLost} after several failed attempts.
c10::intrusive_ptr<c10d::ProcessGroupGloo> meet(Rendezvous& rendezvous);

}  // namespace trireme::comm
