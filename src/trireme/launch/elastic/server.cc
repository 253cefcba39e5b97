#include "trireme/launch/elastic/server.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "trireme/base/error.h"

namespace trireme::elastic {

Server::Server(os::Net& net, const os::Address& address, const std::string& token,
               Callbacks callbacks, const Limits& limits)
    : net_(net),
      sessions_(token),
      callbacks_(std::move(callbacks)),
      limits_(limits),
      address_(net.listen(address)) {}

void Server::handle(const os::NetEvent& event, double now) {
  using Kind = os::NetEvent::Kind;
  if (event.kind == Kind::kAccepted) return accept(event, now);
  if (event.kind == Kind::kClosed) return close(event.connection);
  if (event.kind != Kind::kBytes) return;
  for (Clients* const all : {&clients_, &strangers_})
    if (const auto found = all->find(event.connection); found != all->end())
      return receive(event.connection, found->second, event.bytes);
}

void Server::accept(const os::NetEvent& event, double now) {
  make_room();
  strangers_.emplace(event.connection, Client{sessions_.accept(), now, event.source});
}

// Errors of clients that break the protocol are not errors of ours.
void Server::receive(os::ConnectionId id, Client& client, const std::string& bytes) {
  std::vector<Message> messages;
  bool broken = false;
  try {
    const std::string answer = client.session.receive(
        bytes, [&](std::string frame) { messages.push_back(decode(frame)); });
    net_.send(id, answer);
  } catch (const Error&) {
    broken = true;
  }
  if (client.session.open() && strangers_.contains(id)) clients_.insert(strangers_.extract(id));
  for (Message& message : messages) callbacks_.on_message(id, std::move(message));
  if (broken) close(id);
}

void Server::close(os::ConnectionId id) {
  const bool known = clients_.erase(id) > 0;
  if (!known && strangers_.erase(id) == 0) return;
  net_.close(id);
  if (known)
    callbacks_.on_closed(id);
  else
    ++refused_;
}

// Connections of one source push out each other: a flood from one host does not reach the ranks of another. A rank that
// was pushed out connects again.
void Server::make_room() {
  if (strangers_.size() < limits_.strangers) return;
  std::map<std::string, std::size_t> counts;
  std::size_t most = 0;
  for (const auto& [id, client] : strangers_) most = std::max(most, ++counts[client.source]);
  close(std::find_if(strangers_.begin(), strangers_.end(), [&](const auto& entry) {
          return counts[entry.second.source] == most;
        })->first);
}

void Server::tick(double now) {
  std::vector<os::ConnectionId> ended;
  for (const auto& [id, client] : strangers_)
    if (now - client.since > limits_.handshake_s) ended.push_back(id);
  for (const auto& [id, client] : clients_)
    if (net_.unsent(id) > limits_.unsent) ended.push_back(id);
  for (const os::ConnectionId id : ended) close(id);
}

void Server::send(os::ConnectionId client, const Message& message) {
  const auto found = clients_.find(client);
  if (found != clients_.end()) net_.send(client, found->second.session.seal(encode(message)));
}

}  // namespace trireme::elastic
