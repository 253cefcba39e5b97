#include "trireme/comm/net/listener.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "trireme/base/clock.h"
#include "trireme/base/os/address.h"
#include "trireme/comm/rendezvous/sockets.h"
#include "trireme/launch/elastic/relay.h"

namespace trireme::comm {
namespace {

using Found = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Found resolve(const std::string& host, const char* port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), port, &hints, &found))
    throw std::runtime_error(host + ": " + ::gai_strerror(error));
  return {found, &::freeaddrinfo};
}

Found resolve(const std::string& host, const std::string& port) {
  return resolve(host, port.c_str(), AI_NUMERICHOST);
}

os::Descriptor open_socket(const addrinfo& at) {
  os::Descriptor socket(::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.open()) throw std::runtime_error(std::strerror(errno));
  return socket;
}

os::Descriptor listening_socket(const std::string& host, const std::string& port) {
  constexpr int kBacklog = 1024;
  const Found found = resolve(host, port);
  os::Descriptor socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // A leader that starts again takes its port from connections that are ending.
  const int again = port == "0" ? 0 : 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &again, sizeof again);
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

std::string digits_of(const std::string& host) {
  const Found found = resolve(host, nullptr, 0);
  char digits[NI_MAXHOST];
  if (::getnameinfo(found->ai_addr, found->ai_addrlen, digits, sizeof digits, nullptr, 0,
                    NI_NUMERICHOST) != 0)
    throw std::runtime_error(host + " has no address");
  return digits;
}

Listener::Listener(const std::string& host, const std::string& port)
    : socket_(listening_socket(host, port)) {}

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

namespace {

// The socket is nonblocking until it is connected.
os::Descriptor connected(const Found& found, double seconds, const std::atomic<bool>* stop) {
  os::Descriptor socket = open_socket(*found);
  const Stopwatch watch;
  timeval patience{};
  patience.tv_sec = static_cast<long>(std::max(1.0, seconds));
  for (const int way : {SO_SNDTIMEO, SO_RCVTIMEO})
    ::setsockopt(socket.get(), SOL_SOCKET, way, &patience, sizeof patience);
  int cause = ::connect(socket.get(), found->ai_addr, found->ai_addrlen) == 0 ? 0 : errno;
  while (cause == EINPROGRESS) {
    if (stop != nullptr && *stop) throw std::runtime_error("it is not wanted any more");
    if (watch.seconds() > std::max(1.0, seconds))
      throw std::runtime_error(std::strerror(ETIMEDOUT));
    pollfd waiting{socket.get(), POLLOUT, 0};
    if (::poll(&waiting, 1, 100) != 1) continue;
    socklen_t size = sizeof cause;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &cause, &size);
  }
  if (cause == ECONNREFUSED) throw Refused(std::strerror(cause));
  if (cause != 0) throw std::runtime_error(std::strerror(cause));
  ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) & ~O_NONBLOCK);
  return socket;
}

void receive(const os::Descriptor& socket, void* into, std::size_t bytes) {
  const ssize_t n = ::recv(socket.get(), into, bytes, MSG_WAITALL);
  if (n != static_cast<ssize_t>(bytes))
    throw std::runtime_error("the relay did not answer in time");
}

}  // namespace

os::Descriptor dial(const std::string& host, const std::string& port, double seconds,
                    const std::atomic<bool>* stop) {
  return connected(resolve(host, port), seconds, stop);
}

os::Descriptor dial_relay(const std::string& relay, const std::string& key, const std::string& name,
                          int side, double seconds) {
  const auto at = os::parse_address(relay);
  if (!at) throw std::runtime_error("relay " + relay + " is no HOST:PORT");
  os::Descriptor socket =
      connected(resolve(at->host, std::to_string(at->port).c_str(), 0), seconds, nullptr);
  std::array<char, elastic::kMacBytes> nonce{};
  receive(socket, nonce.data(), nonce.size());
  elastic::RelayHello hello{.side = static_cast<std::uint32_t>(side)};
  std::ranges::copy(elastic::hmac("a pair of a job", name), hello.name.begin());
  std::ranges::copy(elastic::relay_proof(key, {nonce.data(), nonce.size()}, hello),
                    hello.proof.begin());
  if (::send(socket.get(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello)
    throw std::runtime_error("the relay did not take the greeting");
  char joined = 0;
  receive(socket, &joined, 1);
  return socket;
}

}  // namespace trireme::comm
