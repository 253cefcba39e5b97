// Network: what joins ranks of different hosts, for all groups of one rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm/algorithm/links.h"
#include "trireme/comm/transport.h"

namespace trireme::comm {

// transport() is called by one thread, the other functions by any.
// On which rank 0 informs reduction servers that all ranks are done.
inline constexpr char kLastChannel[] = "the last channel";

class Network {
 public:
  virtual ~Network() = default;
  // "Gloo over TCP", "TLS 1.3".
  virtual std::string_view via() const = 0;
  // The transport of a group of this many other ranks, all of which call `key`.
  virtual std::unique_ptr<Transport> transport(const std::string& key, std::size_t others) = 0;
  // Bytes that this rank has handed to it so far.
  virtual std::int64_t bytes_sent() const = 0;
  // Reduction servers of the world. announce() informs them that these ranks, in this order, will call `key`.
  virtual std::vector<algorithm::Server> servers() const { return {}; }
  virtual void announce(const std::string& key, const std::vector<int>& ranks) {}
  // Measured links between the hosts of these ranks, in their order; nothing where they are unknown.
  virtual std::optional<algorithm::Links> links(const std::vector<int>& ranks) const {
    return std::nullopt;
  }
  // As Group::abort, World::cause and World::check_current.
  virtual void abort(const std::string& cause) = 0;
  virtual std::optional<std::string> cause() const = 0;
  virtual void check_current() = 0;
};

}  // namespace trireme::comm
