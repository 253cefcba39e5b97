// Sockets of connections that are being made.
#pragma once

#include <atomic>
#include <optional>
#include <stdexcept>
#include <string>

#include "trireme/base/os/descriptor.h"
#include "trireme/comm/rendezvous/config.h"

namespace trireme::comm {

// This host's address of config.interface, or else the one towards the store. Throws std::runtime_error.
std::string own_address(const RendezvousConfig& config);

// The address of a host's name, in digits. Throws std::runtime_error.
std::string digits_of(const std::string& host);

// Listens on the port of the address, in digits; "0" becomes a free one. The functions throw std::runtime_error.
class Listener {
 public:
  explicit Listener(const std::string& host, const std::string& port = "0");
  std::string port() const;
  // A connection, or nothing where none is waiting.
  std::optional<os::Descriptor> accept() const;
  int descriptor() const { return socket_.get(); }

 private:
  os::Descriptor socket_;
};

// A connected socket. Throws std::runtime_error; Refused where the host is there and nothing listens.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// `stop`: gives up once it is set; null: never.
os::Descriptor dial(const std::string& host, const std::string& port, double seconds,
                    const std::atomic<bool>* stop = nullptr);

// A connection through the relay (launch/elastic/relay.h) to the rank that names the same and takes the other side, which
// is awaited for so many seconds. Throws std::runtime_error.
os::Descriptor dial_relay(const std::string& relay, const std::string& key, const std::string& name,
                          int side, double seconds);

}  // namespace trireme::comm
