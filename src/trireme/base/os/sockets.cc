#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/os/descriptor.h"
#include "trireme/base/os/net.h"
#include "trireme/base/os/tcp.h"

namespace trireme::os {
namespace {

constexpr std::size_t kReadAtOnce = 64 << 10;

struct Place {
  sockaddr_storage address{};
  socklen_t size = 0;
};

// Throws Error{kUsage}: no such host.
Place resolve(const Address& address) {
  Place place;
  if (address.local) {
    auto& un = reinterpret_cast<sockaddr_un&>(place.address);
    un.sun_family = AF_UNIX;  // a first byte of 0: abstract
    std::memcpy(un.sun_path + 1, address.host.data(), address.host.size());
    place.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + address.host.size());
    return place;
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | AI_NUMERICHOST;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  int code = ::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
  if (code == EAI_NONAME) {  // a name, for which somebody else may have to be asked
    hints.ai_flags = AI_NUMERICSERV;
    code = ::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
  }
  if (code != 0)
    fail(ErrorKind::kUsage, "{}: {}; give a host that this one can resolve", print(address),
         ::gai_strerror(code));
  std::memcpy(&place.address, found->ai_addr, found->ai_addrlen);
  place.size = found->ai_addrlen;
  ::freeaddrinfo(found);
  return place;
}

// Local sockets have none of these options.
void set_options(const Descriptor& socket) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(socket.get(), level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);  // small messages must not wait for each other
  // A host that is gone without a word ends its connections, whether or not anything is sent. Hosts that send reports are
  // lost sooner.
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 1000 * kUnanswered_s);
  outlive_cuts(socket.get());
}

// Of one end's host: what it cannot change at will from one connection to the next.
std::string source_of(const sockaddr_storage& address, int socket) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
  } else if (address.ss_family == AF_INET6) {
    in6_addr v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    constexpr std::size_t kNetworkBytes = 8;
    if (!IN6_IS_ADDR_V4MAPPED(&v6))
      std::memset(v6.s6_addr + kNetworkBytes, 0, sizeof v6.s6_addr - kNetworkBytes);
    ::inet_ntop(AF_INET6, &v6, text, sizeof text);
  } else {
    ucred user{};
    socklen_t size = sizeof user;
    ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &user, &size);
    return "user " + std::to_string(user.uid);
  }
  return text;
}

Descriptor stream_socket(const Place& place) {
  Descriptor made(::socket(place.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.open())
    fail(ErrorKind::kUsage, "no file descriptor for a connection: {}; raise ulimit -n",
         std::strerror(errno));
  set_options(made);
  return made;
}

class Sockets final : public Net {
 public:
  explicit Sockets(std::size_t most)
      : most_(most), epoll_(::epoll_create1(EPOLL_CLOEXEC)), bell_(::eventfd(0, EFD_CLOEXEC)) {
    if (!epoll_.open() || !bell_.open())
      fail(ErrorKind::kUsage, "no file descriptor to watch connections: {}; raise ulimit -n",
           std::strerror(errno));
    watch(EPOLL_CTL_ADD, bell_.get(), 0, EPOLLIN);
  }

  Address listen(const Address& address) override;
  ConnectionId dial(const Address& address) override;
  void send(ConnectionId id, std::string_view bytes) override;
  std::size_t unsent(ConnectionId id) const override {
    const auto found = connections_.find(id);
    return found == connections_.end() ? 0 : found->second.unsent.size();
  }
  void close(ConnectionId id) override {
    connections_.erase(id);
    watch_listeners(true);
  }
  std::vector<NetEvent> take() override;
  int descriptor() const override { return epoll_.get(); }

 private:
  struct Connection {
    Descriptor socket;
    bool connecting = false;
    std::string unsent{};
  };

  void watch(int operation, int fd, ConnectionId id, std::uint32_t events) {
    epoll_event wanted{};
    wanted.events = events;
    wanted.data.u64 = id;
    TRIREME_CHECK(::epoll_ctl(epoll_.get(), operation, fd, &wanted) == 0, "epoll: {}",
                  std::strerror(errno));
  }
  void watch_listeners(bool on);
  void accept(const Descriptor& listener, std::vector<NetEvent>& events);
  void finish_connecting(ConnectionId id, Connection& connection, std::vector<NetEvent>& events);
  void receive(ConnectionId id, Connection& connection, std::vector<NetEvent>& events);
  bool flush(ConnectionId id, Connection& connection);
  void lose(ConnectionId id, int cause, std::vector<NetEvent>& events) {
    events.push_back(closed(id, cause));
    close(id);
  }
  static NetEvent closed(ConnectionId id, int cause) {
    // It is a reset where the other side had not read everything.
    const bool ended = cause == 0 || cause == ECONNRESET || cause == EPIPE;
    return {.kind = NetEvent::Kind::kClosed,
            .connection = id,
            .bytes = ended ? "" : std::strerror(cause),
            .no_listener = cause == ECONNREFUSED || cause == ENOENT};
  }

  std::size_t most_;
  Descriptor epoll_;
  std::map<ConnectionId, Descriptor> listeners_;
  std::map<ConnectionId, Connection> connections_;
  Descriptor bell_;  // can be read while events are pending that the kernel does not know
  std::vector<NetEvent> pending_;
  ConnectionId next_ = 1;
  bool listening_ = true;
};

Address Sockets::listen(const Address& address) {
  Place place = resolve(address);
  Descriptor socket = stream_socket(place);
  const int yes = 1;  // a port whose last connections are still closing can be had
  if (!address.local) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  auto* raw = reinterpret_cast<sockaddr*>(&place.address);
  if (::bind(socket.get(), raw, place.size) != 0 || ::listen(socket.get(), SOMAXCONN) != 0)
    fail(ErrorKind::kUsage, "cannot listen on {}: {}; choose another", print(address),
         std::strerror(errno));
  Address where = address;
  if (!address.local) {
    ::getsockname(socket.get(), raw, &place.size);
    where.port =
        ntohs(place.address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(raw)->sin6_port
                                                  : reinterpret_cast<sockaddr_in*>(raw)->sin_port);
  }
  const ConnectionId id = next_++;
  watch(EPOLL_CTL_ADD, socket.get(), id, EPOLLIN);
  listeners_.emplace(id, std::move(socket));
  return where;
}

ConnectionId Sockets::dial(const Address& address) {
  const ConnectionId id = next_++;
  try {
    const Place place = resolve(address);
    Connection connection{stream_socket(place), true};
    const int fd = connection.socket.get();
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&place.address), place.size) == 0 ||
        errno == EINPROGRESS) {
      watch(EPOLL_CTL_ADD, fd, id, EPOLLIN | EPOLLOUT);
      connections_.emplace(id, std::move(connection));
      return id;
    }
    pending_.push_back(closed(id, errno));
  } catch (const Error& error) {
    pending_.push_back({NetEvent::Kind::kClosed, id, error.what()});
  }
  ::eventfd_write(bell_.get(), 1);
  return id;
}

void Sockets::send(ConnectionId id, std::string_view bytes) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  found->second.unsent += bytes;
  if (!found->second.connecting) flush(id, found->second);
}

// False if the connection is broken, which its next event reports.
bool Sockets::flush(ConnectionId id, Connection& connection) {
  std::string_view rest = connection.unsent;
  while (!rest.empty()) {
    const ssize_t sent = ::send(connection.socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) return false;
    if (sent < 0) break;
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  connection.unsent.erase(0, connection.unsent.size() - rest.size());
  const std::uint32_t more = connection.unsent.empty() ? 0 : std::uint32_t{EPOLLOUT};
  watch(EPOLL_CTL_MOD, connection.socket.get(), id, EPOLLIN | more);
  return true;
}

void Sockets::watch_listeners(bool on) {
  if (on == listening_ || (on && connections_.size() >= most_)) return;
  listening_ = on;
  for (const auto& [id, listener] : listeners_)
    watch(EPOLL_CTL_MOD, listener.get(), id, on ? std::uint32_t{EPOLLIN} : 0);
}

void Sockets::accept(const Descriptor& listener, std::vector<NetEvent>& events) {
  constexpr int kAtOnce = 16;
  for (int taken = 0; connections_.size() < most_; ++taken) {
    if (taken == kAtOnce) return;  // the next call reports the rest
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    Descriptor socket(::accept4(listener.get(), reinterpret_cast<sockaddr*>(&from), &size,
                                SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.open()) {
      // Without descriptors no connection can be accepted until another ends.
      if (errno == EMFILE || errno == ENFILE) watch_listeners(false);
      return;
    }
    set_options(socket);
    const ConnectionId id = next_++;
    watch(EPOLL_CTL_ADD, socket.get(), id, EPOLLIN);
    events.push_back({.kind = NetEvent::Kind::kAccepted,
                      .connection = id,
                      .source = source_of(from, socket.get())});
    connections_.emplace(id, Connection{std::move(socket)});
  }
  watch_listeners(false);
}

void Sockets::finish_connecting(ConnectionId id, Connection& connection,
                                std::vector<NetEvent>& events) {
  int cause = 0;
  socklen_t size = sizeof cause;
  ::getsockopt(connection.socket.get(), SOL_SOCKET, SO_ERROR, &cause, &size);
  if (cause != 0) return lose(id, cause, events);
  connection.connecting = false;
  events.push_back({NetEvent::Kind::kConnected, id});
  if (!flush(id, connection)) lose(id, errno, events);
}

void Sockets::receive(ConnectionId id, Connection& connection, std::vector<NetEvent>& events) {
  std::string bytes(kReadAtOnce, '\0');
  const ssize_t got = ::recv(connection.socket.get(), bytes.data(), bytes.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return lose(id, got < 0 ? errno : 0, events);
  bytes.resize(static_cast<std::size_t>(got));
  events.push_back({NetEvent::Kind::kBytes, id, std::move(bytes)});
}

std::vector<NetEvent> Sockets::take() {
  std::vector<NetEvent> events = std::exchange(pending_, {});
  eventfd_t rung = 0;
  if (!events.empty()) ::eventfd_read(bell_.get(), &rung);
  epoll_event ready[64];
  const int count = ::epoll_wait(epoll_.get(), ready, std::size(ready), 0);
  for (int i = 0; i < count; ++i) {
    const ConnectionId id = ready[i].data.u64;
    if (listeners_.contains(id)) continue;
    auto found = connections_.find(id);
    if (found == connections_.end()) continue;
    if (found->second.connecting) {
      finish_connecting(id, found->second, events);
      continue;
    }
    if ((ready[i].events & EPOLLOUT) != 0 && !flush(id, found->second)) {
      lose(id, errno, events);
      continue;
    }
    if ((ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
      receive(id, found->second, events);
  }
  // Those that are there are heard before others are taken, or a flood of new ones would push them out unheard.
  for (int i = 0; i < count; ++i)
    if (const auto listener = listeners_.find(ready[i].data.u64); listener != listeners_.end())
      accept(listener->second, events);
  return events;
}

}  // namespace

std::unique_ptr<Net> make_sockets(std::size_t most) { return std::make_unique<Sockets>(most); }

}  // namespace trireme::os
