// How ranks come to be connected by streams that each side has proven to belong to the other.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/net/stream.h"
#include "trireme/comm/rendezvous/rendezvous.h"

namespace trireme::comm {

// Streams to other ranks, by rank; as many to each.
using Streams = std::map<int, std::vector<std::unique_ptr<Stream>>>;

// Callbacks for streams whose connections are cut. Called by threads of the mesh.
struct Keeping {
  // Gives up the old connection of a rank's stream; returns the number of bytes that have arrived over it. Throws
  // std::runtime_error where the stream is over.
  std::function<std::uint64_t(int rank, int stream)> arrived;
  // The stream has a new connection, to whose other side so many bytes have come.
  std::function<void(int rank, int stream, std::unique_ptr<Stream>, std::uint64_t)> resumed;
  // The rank is not there any more.
  std::function<void(int rank, const std::string& why)> gone;
};

// Connects this rank to every one of `peers` by `streams` connections each: to lower ranks it dials, from higher ranks
// it accepts. Every rank of the world must call it, with lists that agree. A stranger that connects is dropped. Both
// ends of a connection show by HMACs over fresh nonces that they know the secret, which is the agent's token or else
// one that rank 0 spreads through the store. With `tls` this happens inside TLS. Throws Error{kUsage} if
// config.interface is not on this host, Error{kPeerLost} naming ranks that have not connected within
// config.connect_timeout_s.
// A lower rank that cannot be reached dials itself; where neither can, both meet at config.relay.
class Mesh {
 public:
  Mesh(Rendezvous& rendezvous, const std::vector<int>& peers, int streams, const Tls* tls);
  ~Mesh();
  Streams connect();
  // Whether streams to the rank pass through the relay.
  bool relayed(int rank) const;
  // From now on until its end.
  void keep(Keeping keeping);
  // The connection is cut: another one is made within config.resume_s, the same way. Any thread may call it.
  void reconnect(int rank, int stream);

 private:
  class Body;
  std::unique_ptr<Body> body_;
};

}  // namespace trireme::comm
