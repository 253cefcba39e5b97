// Dialler: connections that this rank makes to others, directly or through the relay.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "trireme/comm/net/handshake.h"
#include "trireme/comm/net/listener.h"
#include "trireme/comm/rendezvous/rendezvous.h"

namespace trireme::comm::net {

// Address of ranks to which no other host can connect.
inline constexpr const char* kNowhere = "-";

// How two ranks are connected: the higher dials, the lower does, or both dial the relay, where the higher greets first.
enum class Dialling { kDirect, kReverse, kRelay };
inline constexpr double kDirectPatience =
    3;  // seconds of one attempt to dial, and of all of them before the next way
// Where the higher of two ranks asks for another way.
inline std::string asking_key(Dialling way, int high, int low, int stream) {
  return fmt::format("net/{}/{}/{}/{}", way == Dialling::kReverse ? "reverse" : "relay", high, low,
                     stream);
}

// On config.interface, at an address that others find in the store. Throws Error{kUsage}.
Listener listen(Rendezvous& rendezvous);

// Used by one thread. Functions that connect throw std::runtime_error.
class Dialler {
 public:
  // `tls` may be null.
  Dialler(Rendezvous& rendezvous, const Tls* tls, const Proofs& proofs)
      : rendezvous_(rendezvous), tls_(tls), proofs_(proofs) {}

  static std::string key(int rank) { return fmt::format("net/address/{}", rank); }
  // From the store; blocks until the rank has said it.
  const std::string& address_of(int peer);
  bool knows_nowhere(int peer) const {
    return addresses_.contains(peer) && addresses_.at(peer) == kNowhere;
  }
  os::Descriptor direct(int peer, double seconds);
  // `seconds`: for the other rank to be there, too.
  os::Descriptor relayed(int peer, int stream, double seconds);

  // Does the dialler's part of the handshake. Returns the stream and the number of bytes that have come to the other side
  // over its old connection.
  struct Resumption {
    std::int32_t number = 0;                   // counts up; 0: the stream has no old connection
    std::function<std::uint64_t()> arrived{};  // bytes that have come over that
  };
  std::pair<std::unique_ptr<Stream>, std::uint64_t> introduce(os::Descriptor socket, int peer,
                                                              int stream,
                                                              const Resumption& resumption);

 private:
  Rendezvous& rendezvous_;
  const Tls* tls_;
  const Proofs& proofs_;
  std::map<int, std::string> addresses_;
};

}  // namespace trireme::comm::net
