// Server: the leader's side of connections. Only clients that know the token can send messages; others cost little and
// are soon disconnected.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "trireme/base/os/net.h"
#include "trireme/launch/elastic/frame.h"
#include "trireme/launch/elastic/messages.h"

namespace trireme::elastic {

class Server {
 public:
  struct Limits {
    // Connections that have not shown the token. One more: the oldest goes of the source that has the most of them.
    std::size_t strangers = 256;
    double handshake_s = 2;         // that a stranger has to show it
    std::size_t unsent = 64 << 20;  // bytes that a client may leave unread
  };
  struct Callbacks {
    std::function<void(os::ConnectionId, Message)> on_message;
    std::function<void(os::ConnectionId)> on_closed;  // of a client that had shown the token
  };

  // Listens. Throws Error{kUsage}.
  Server(os::Net& net, const os::Address& address, const std::string& token, Callbacks callbacks,
         const Limits& limits);

  const os::Address& address() const { return address_; }
  // Events of connections that are not the server's are passed over.
  void handle(const os::NetEvent& event, double now);
  void tick(double now);
  void send(os::ConnectionId client, const Message& message);
  // Connections that ended without showing the token.
  std::uint64_t refused() const { return refused_; }

 private:
  struct Client {
    Session session;
    double since = 0;
    std::string source{};
  };
  using Clients = std::map<os::ConnectionId, Client>;  // the oldest first
  void accept(const os::NetEvent& event, double now);
  void receive(os::ConnectionId id, Client& client, const std::string& bytes);
  void close(os::ConnectionId id);
  void make_room();

  os::Net& net_;
  Sessions sessions_;
  Callbacks callbacks_;
  Limits limits_;
  os::Address address_;
  Clients clients_, strangers_;  // that have shown the token, and that have not
  std::uint64_t refused_ = 0;
};

}  // namespace trireme::elastic
