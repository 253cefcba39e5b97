#include "trireme/comm/net/listener.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "trireme/comm/rendezvous/sockets.h"

namespace trireme::comm {
namespace {

using Found = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Found resolve(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found))
    throw std::runtime_error(host + ": " + ::gai_strerror(error));
  return {found, &::freeaddrinfo};
}

os::Descriptor open_socket(const addrinfo& at) {
  os::Descriptor socket(::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.open()) throw std::runtime_error(std::strerror(errno));
  return socket;
}

os::Descriptor listening_socket(const std::string& host) {
  constexpr int kBacklog = 1024;
  const Found found = resolve(host, "0");
  os::Descriptor socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.open() || ::bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(socket.get(), kBacklog) != 0)
    throw std::runtime_error(std::strerror(errno));
  return socket;
}

}  // namespace

std::string own_address(const RendezvousConfig& config) {
  if (config.interface.empty()) return address_towards(config.host, config.port);
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) throw std::runtime_error(std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> kept(all, &::freeifaddrs);
  for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || config.interface != at->ifa_name) continue;
    const bool v6 = at->ifa_addr->sa_family == AF_INET6;
    if (at->ifa_addr->sa_family != AF_INET && !v6) continue;
    char host[NI_MAXHOST];
    const socklen_t size = v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (::getnameinfo(at->ifa_addr, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) == 0)
      return host;
  }
  throw std::runtime_error("it has no address");
}

Listener::Listener(const std::string& host) : socket_(listening_socket(host)) {}

std::string Listener::port() const {
  sockaddr_storage self{};
  socklen_t size = sizeof self;
  char port[NI_MAXSERV];
  if (::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&self), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&self), size, nullptr, 0, port, sizeof port,
                    NI_NUMERICSERV) != 0)
    throw std::runtime_error("no port");
  return port;
}

std::optional<os::Descriptor> Listener::accept() const {
  os::Descriptor taken(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!taken.open() && (errno == EMFILE || errno == ENFILE))
    throw std::runtime_error("no descriptor is left for connections; raise `ulimit -n`");
  if (!taken.open()) return std::nullopt;
  return taken;
}

os::Descriptor dial(const std::string& host, const std::string& port, double seconds) {
  const Found found = resolve(host, port);
  os::Descriptor socket = open_socket(*found);
  timeval patience{};
  patience.tv_sec = static_cast<long>(std::max(1.0, seconds));
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (::connect(socket.get(), found->ai_addr, found->ai_addrlen) != 0)
    throw std::runtime_error(std::strerror(errno));
  return socket;
}

}  // namespace trireme::comm
