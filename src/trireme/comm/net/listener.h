// Sockets of connections that are being made.
#pragma once

#include <optional>
#include <string>

#include "trireme/base/os/descriptor.h"
#include "trireme/comm/rendezvous/config.h"

namespace trireme::comm {

// This host's address of config.interface, or else the one towards the store. Throws std::runtime_error.
std::string own_address(const RendezvousConfig& config);

// Listens on a free port of the address, in digits. The functions throw std::runtime_error.
class Listener {
 public:
  explicit Listener(const std::string& host);
  std::string port() const;
  // A connection, or nothing where none is waiting.
  std::optional<os::Descriptor> accept() const;
  int descriptor() const { return socket_.get(); }

 private:
  os::Descriptor socket_;
};

// A connected socket. Throws std::runtime_error.
os::Descriptor dial(const std::string& host, const std::string& port, double seconds);

}  // namespace trireme::comm
