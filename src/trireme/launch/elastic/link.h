// Link: a host's connection to the leader of its run. It connects again for as long as it takes; what cannot be sent now
// is left out, because every report holds all that matters.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "trireme/base/os/net.h"
#include "trireme/launch/elastic/frame.h"
#include "trireme/launch/elastic/messages.h"

namespace trireme::elastic {

class Link {
 public:
  Link(os::Net& net, os::Address leader, const std::string& token,
       std::function<void(Message)> on_message);

  void send(const Message& message);
  void handle(const os::NetEvent& event);
  void tick(double now);
  bool connected() const { return session_ && session_->open(); }
  // Why the last attempt failed; empty while connected.
  const std::string& trouble() const { return trouble_; }

 private:
  void drop(const std::string& why);

  os::Net& net_;
  os::Address leader_;
  Sessions sessions_;
  std::function<void(Message)> on_message_;
  os::ConnectionId connection_ = 0;
  std::optional<Session> session_;
  double dialled_at_ = -1e9;
  std::string trouble_;
};

}  // namespace trireme::elastic
