// Byte streams to other processes, as an interface: nothing blocks, and changes are reported as events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/os/address.h"

namespace trireme::os {

using ConnectionId = std::uint64_t;

struct NetEvent {
  enum class Kind { kAccepted, kConnected, kBytes, kClosed };
  Kind kind = Kind::kClosed;
  ConnectionId connection = 0;
  std::string bytes{};  // of kBytes; of kClosed why, empty where the other side ended it
  // For kAccepted: the possible peer, as far as the kernel knows it. The address without a port (of IPv6 the network of
  // 64 bits); of a local socket the user.
  std::string source{};
  bool no_listener = false;  // of kClosed: nothing listens there
};

class Net {
 public:
  virtual ~Net() = default;

  // Listens, and returns where: port 0 becomes a free one. Throws Error{kUsage}.
  virtual Address listen(const Address& address) = 0;
  // Begins to connect; kConnected or kClosed follows, the latter also where the host is unknown. Returns at once for an
  // address in digits; a name is looked up first, which takes as long as the system's resolver does.
  virtual ConnectionId dial(const Address& address) = 0;
  // Queues bytes. A connection that is closed takes them and does nothing.
  virtual void send(ConnectionId connection, std::string_view bytes) = 0;
  // Bytes that were queued and that the kernel has not taken.
  virtual std::size_t unsent(ConnectionId connection) const = 0;
  // Ends it without a kClosed, after what the kernel takes at once.
  virtual void close(ConnectionId connection) = 0;

  // Events since the last call.
  virtual std::vector<NetEvent> take() = 0;
  // Can be read when take() would return something.
  virtual int descriptor() const = 0;
};

// Sockets of the kernel. At most `most` connections at a time: further ones wait to be accepted.
std::unique_ptr<Net> make_sockets(std::size_t most = 4096);

}  // namespace trireme::os
