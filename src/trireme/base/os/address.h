// Where a program listens.
#pragma once

#include <optional>
#include <string>

namespace trireme::os {

// A TCP port of a host, or a name for programs of this machine only (an abstract UNIX socket, which leaves no file when
// its owner ends).
struct Address {
  std::string host;
  int port = 0;
  bool local = false;  // `host` is the name
  bool operator==(const Address&) const = default;
};

// "host:port", "[::1]:port" or "unix:name"; nothing for other text.
std::optional<Address> parse_address(const std::string& text);
std::string print(const Address& address);

}  // namespace trireme::os
