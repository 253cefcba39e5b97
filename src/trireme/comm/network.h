// Network: what joins ranks of different hosts, for all groups of one rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "trireme/comm/transport.h"

namespace trireme::comm {

// transport() is called by one thread, the other functions by any.
class Network {
 public:
  virtual ~Network() = default;
  // "Gloo over TCP", "TLS 1.3".
  virtual std::string_view via() const = 0;
  // The transport of a group of this many other ranks, all of which call `key`.
  virtual std::unique_ptr<Transport> transport(const std::string& key, std::size_t others) = 0;
  // Bytes that this rank has handed to it so far.
  virtual std::int64_t bytes_sent() const = 0;
  // As Group::abort, World::cause and World::check_current.
  virtual void abort(const std::string& cause) = 0;
  virtual std::optional<std::string> cause() const = 0;
  virtual void check_current() = 0;
};

}  // namespace trireme::comm
