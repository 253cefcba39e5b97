#include "trireme/elastic/server.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/elastic/secret.h"

namespace trireme::elastic {

Server::Server(env::Net& net, const env::Address& address, std::string token, Callbacks callbacks,
               const Limits& limits)
    : net_(net),
      token_(std::move(token)),
      callbacks_(std::move(callbacks)),
      limits_(limits),
      address_(net.listen(address)) {}

void Server::handle(const env::NetEvent& event, double now) {
  using Kind = env::NetEvent::Kind;
  if (event.kind == Kind::kAccepted) {
    make_room();
    Session session(Session::Role::kServer, token_, random_bytes(32));
    net_.send(event.connection, session.greeting());
    clients_.emplace(event.connection, Client{std::move(session), now});
    return;
  }
  const auto found = clients_.find(event.connection);
  if (found == clients_.end()) return;
  if (event.kind == Kind::kClosed) close(event.connection);
  if (event.kind == Kind::kBytes) receive(event.connection, found->second, event.bytes);
}

// What comes of whoever does not keep to the protocol is not an error of ours.
void Server::receive(env::ConnectionId id, Client& client, const std::string& bytes) {
  std::vector<Message> messages;
  bool broken = false;
  try {
    const std::string answer = client.session.receive(
        bytes, [&](std::string frame) { messages.push_back(decode(frame)); });
    net_.send(id, answer);
  } catch (const Error&) {
    broken = true;
  }
  for (Message& message : messages) callbacks_.on_message(id, std::move(message));
  if (broken) close(id);
}

void Server::close(env::ConnectionId id) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  const bool known = found->second.session.open();
  clients_.erase(found);
  net_.close(id);
  if (known)
    callbacks_.on_closed(id);
  else
    ++refused_;
}

// A flood of strangers pushes out its own: whoever has the token shows it at once.
void Server::make_room() {
  const auto stranger = [](const auto& entry) { return !entry.second.session.open(); };
  if (static_cast<std::size_t>(std::count_if(clients_.begin(), clients_.end(), stranger)) >=
      limits_.strangers)
    close(std::find_if(clients_.begin(), clients_.end(), stranger)->first);
}

void Server::tick(double now) {
  std::vector<env::ConnectionId> late;
  for (const auto& [id, client] : clients_)
    if ((!client.session.open() && now - client.since > limits_.handshake_s) ||
        net_.unsent(id) > limits_.unsent)
      late.push_back(id);
  for (const env::ConnectionId id : late) close(id);
}

void Server::send(env::ConnectionId client, const Message& message) {
  const auto found = clients_.find(client);
  if (found != clients_.end() && found->second.session.open())
    net_.send(client, found->second.session.seal(encode(message)));
}

}  // namespace trireme::elastic
