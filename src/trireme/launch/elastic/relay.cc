#include "trireme/launch/elastic/relay.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/os/address.h"
#include "trireme/base/os/tcp.h"

namespace trireme::elastic {
namespace {

constexpr double kProofPatience = 10, kPartnerPatience = 60, kLook_s = 0.5;  // seconds
constexpr std::size_t kMostWaiting = 4096;               // connections without a partner
constexpr std::size_t kPassed = std::size_t{256} << 10;  // bytes on their way, each way

// One host's connection.
struct RelayEnd {
  os::Descriptor socket;
  std::string nonce = random_bytes(kMacBytes);
  std::size_t nonce_sent = 0, hello_got = 0;
  RelayHello hello;
  bool proven = false;
  Stopwatch since;
  RelayEnd* partner = nullptr;
  std::vector<char> kept;  // bytes from the partner that have not left yet
  std::size_t kept_sent = 0;
  bool closed = false;  // nothing more comes from it
  bool over = false;
};
using RelayEnds = std::list<std::unique_ptr<RelayEnd>>;

bool must_wait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// Moves the greeting on; throws nothing: a connection that is wrong is over.
void greet(RelayEnd& end, const std::string& key) {
  if (end.nonce_sent < end.nonce.size()) {
    const ssize_t n = ::send(end.socket.get(), end.nonce.data() + end.nonce_sent,
                             end.nonce.size() - end.nonce_sent, MSG_NOSIGNAL);
    if (n > 0) end.nonce_sent += static_cast<std::size_t>(n);
    if (n < 0 && !must_wait()) end.over = true;
  }
  if (end.proven) {  // it has nothing to say before it has a partner
    char early = 0;
    const ssize_t n = ::recv(end.socket.get(), &early, 1, 0);
    end.over |= n >= 0 || !must_wait();
    return;
  }
  const ssize_t n = ::recv(end.socket.get(), reinterpret_cast<char*>(&end.hello) + end.hello_got,
                           sizeof end.hello - end.hello_got, 0);
  if (n == 0 || (n < 0 && !must_wait())) end.over = true;
  if (n <= 0) return;
  end.hello_got += static_cast<std::size_t>(n);
  if (end.hello_got < sizeof end.hello) return;
  const std::string proof = relay_proof(key, end.nonce, end.hello);
  end.proven =
      end.hello.side <= 1 && same_secret({end.hello.proof.data(), end.hello.proof.size()}, proof);
  end.over = !end.proven;
}

// Takes what comes from `from` as far as its partner has space.
void take_in(RelayEnd& from) {
  RelayEnd& to = *from.partner;
  while (!from.closed && to.kept.size() < kPassed) {
    const std::size_t old = to.kept.size();
    to.kept.resize(kPassed);
    const ssize_t n = ::recv(from.socket.get(), to.kept.data() + old, kPassed - old, 0);
    to.kept.resize(old + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (n > 0) continue;
    if (n == 0) from.closed = true;
    if (n < 0 && !must_wait()) from.over = true;
    return;
  }
}

std::int64_t pass_on(RelayEnd& to) {
  std::int64_t passed = 0;
  while (to.kept_sent < to.kept.size()) {
    const ssize_t n = ::send(to.socket.get(), to.kept.data() + to.kept_sent,
                             to.kept.size() - to.kept_sent, MSG_NOSIGNAL);
    if (n < 0 && !must_wait()) to.over = true;
    if (n <= 0) return passed;
    to.kept_sent += static_cast<std::size_t>(n);
    passed += n;
  }
  to.kept.clear();
  to.kept_sent = 0;
  if (to.partner->closed) ::shutdown(to.socket.get(), SHUT_WR);
  return passed;
}

short wanted(const RelayEnd& end) {
  if (end.partner == nullptr)
    return static_cast<short>(POLLIN | (end.nonce_sent < end.nonce.size() ? POLLOUT : 0));
  const bool in = !end.closed && end.partner->kept.size() < kPassed;
  return static_cast<short>((in ? POLLIN : 0) | (end.kept.empty() ? 0 : POLLOUT));
}

void prepare_end(const os::Descriptor& socket, const Relay::Silence& silence) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(socket.get(), level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, silence.idle_s);
  set(IPPROTO_TCP, TCP_KEEPINTVL, silence.between_s);
  set(IPPROTO_TCP, TCP_KEEPCNT, silence.probes);
  os::retransmit_soon(socket.get());
}

// While bytes are under way, the kernel probes nothing and repeats them for a quarter of an hour.
bool acknowledges(const os::Descriptor& socket, const Relay::Silence& silence) {
  tcp_info info{};
  socklen_t size = sizeof info;
  return ::getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
         info.tcpi_unacked == 0 || info.tcpi_last_ack_recv < 1000 * silence.seconds();
}

void make_pair(RelayEnd& one, RelayEnd& other) {
  one.partner = &other;
  other.partner = &one;
  one.kept = other.kept = {1};  // the byte that says so
}

}  // namespace

std::string relay_proof(const std::string& key, std::string_view nonce, const RelayHello& hello) {
  std::string text(nonce);
  text.append(hello.name.data(), hello.name.size());
  text += static_cast<char>('0' + hello.side);
  return hmac(key, text);
}

Relay::Relay(const std::string& address, std::string key, const Silence& silence)
    : key_(std::move(key)), silence_(silence) {
  const auto at = os::parse_address(address);
  if (!at || at->local)
    fail(ErrorKind::kUsage, "--listen {}; needs HOST:PORT, such as 0.0.0.0:29600", address);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error =
          ::getaddrinfo(at->host.c_str(), std::to_string(at->port).c_str(), &hints, &found))
    fail(ErrorKind::kUsage, "--listen {}: {}; name an address of this host", address,
         ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> kept(found, &::freeaddrinfo);
  listener_ =
      os::Descriptor(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_storage self{};
  socklen_t size = sizeof self;
  constexpr int kBacklog = 1024;
  if (!listener_.open() || ::bind(listener_.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(listener_.get(), kBacklog) != 0 ||
      ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&self), &size) != 0)
    fail(ErrorKind::kUsage, "--listen {}: {}; choose a free port of this host", address,
         std::strerror(errno));
  port_ = ntohs(self.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(self).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(self).sin_port);
}

void Relay::run() {
  RelayEnds ends;
  std::vector<pollfd> waiting;
  bool full = false;  // no descriptor was left: the listener rests until some are
  Stopwatch looked;
  while (!stopping_) {
    waiting.assign(1, {full ? -1 : listener_.get(), POLLIN, 0});
    for (const auto& end : ends) waiting.push_back({end->socket.get(), wanted(*end), 0});
    ::poll(waiting.data(), waiting.size(), 200);
    std::size_t at = 1;
    for (const auto& end : ends) {
      const short events = waiting[at++].revents;
      if (end->partner == nullptr) {
        if (events != 0) greet(*end, key_);
        const double patience = end->proven ? kPartnerPatience : kProofPatience;
        end->over |= end->since.seconds() > patience;
      } else if (events != 0) {
        take_in(*end);
        bytes_ += pass_on(*end->partner) + pass_on(*end);
        end->over |= (events & (POLLERR | POLLNVAL)) != 0;
      }
    }
    for (const auto& end : ends) {
      if (!end->proven || end->over || end->partner != nullptr) continue;
      for (const auto& other : ends)
        if (end != other && other->proven && !other->over && other->partner == nullptr &&
            other->hello.name == end->hello.name && other->hello.side != end->hello.side) {
          make_pair(*end, *other);
          ++pairs_;
          break;
        }
    }
    if (looked.seconds() > kLook_s) {
      looked = Stopwatch();
      for (const auto& end : ends) end->over |= !acknowledges(end->socket, silence_);
    }
    // A pair is over when either end is, or both have said all.
    for (const auto& end : ends)
      if (end->partner != nullptr) {
        const bool said =
            end->closed && end->partner->closed && end->kept.empty() && end->partner->kept.empty();
        end->over |= said || end->partner->over;
      }
    for (const auto& end : ends)
      if (end->partner != nullptr && end->over) end->partner->over = true;
    std::erase_if(ends, [](const auto& end) { return end->over; });
    for (;;) {
      os::Descriptor taken(
          ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      full = !taken.open() && (errno == EMFILE || errno == ENFILE);
      if (!taken.open()) break;
      prepare_end(taken, silence_);
      const auto alone =
          std::ranges::count_if(ends, [](const auto& end) { return end->partner == nullptr; });
      if (static_cast<std::size_t>(alone) >= kMostWaiting) continue;  // closes it
      ends.push_back(std::make_unique<RelayEnd>());
      ends.back()->socket = std::move(taken);
    }
  }
}

}  // namespace trireme::elastic
