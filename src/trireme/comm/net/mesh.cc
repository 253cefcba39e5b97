#include "trireme/comm/net/mesh.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/comm/rendezvous/sockets.h"
#include "trireme/launch/elastic/backoff.h"
#include "trireme/launch/elastic/secret.h"

namespace trireme::comm {
namespace {

constexpr double kPatience = 10;  // seconds for one connection to prove itself
constexpr std::size_t kMostPending = 256;

using Mac = std::array<char, elastic::kMacBytes>;

// What the ends of a connection show each other, in this order: the acceptor its nonce, the dialler a Hello, the acceptor a
// proof.
struct Hello {
  std::int32_t from, to, stream;
  std::int32_t unused = 0;
  Mac nonce, proof;
};
static_assert(sizeof(Hello) == 16 + 2 * elastic::kMacBytes);

Mac to_mac(const std::string& bytes) {
  Mac mac{};
  std::copy_n(bytes.begin(), std::min(bytes.size(), mac.size()), mac.begin());
  return mac;
}

std::string_view text(const Mac& mac) { return {mac.data(), mac.size()}; }

// The proofs of one connection of a run.
struct Proofs {
  std::string secret, run;

  Mac make(const char* side, const Mac& acceptors, const Hello& hello) const {
    return to_mac(elastic::hmac(
        secret, fmt::format("{}|{}|{} to {} stream {}|{}{}", side, run, hello.from, hello.to,
                            hello.stream, text(acceptors), text(hello.nonce))));
  }
  bool fits(const Mac& shown, const char* side, const Mac& acceptors, const Hello& hello) const {
    return elastic::same_secret(text(shown), text(make(side, acceptors, hello)));
  }
};

// Moves bytes of a fixed amount through a stream, as they can go.
class Transfer {
 public:
  Transfer(bool out, void* data, std::size_t bytes)
      : out_(out), data_(static_cast<std::byte*>(data)), bytes_(bytes) {}
  // Whether all have gone.
  bool advance(Stream& stream) {
    while (done_ < bytes_) {
      const std::size_t n = out_ ? stream.write(data_ + done_, bytes_ - done_)
                                 : stream.read(data_ + done_, bytes_ - done_);
      if (n == 0) return false;
      done_ += n;
    }
    return true;
  }
  bool out() const { return out_; }

 private:
  bool out_;
  std::byte* data_;
  std::size_t bytes_, done_ = 0;
};

short events(const Stream& stream, const Transfer& transfer) {
  const bool out = transfer.out() || stream.waits_for_room();
  return static_cast<short>(POLLIN | (out ? POLLOUT : 0));
}

// Moves all of it, or throws std::runtime_error at the deadline.
void move(Stream& stream, Transfer transfer, const Stopwatch& watch, double deadline) {
  while (!transfer.advance(stream)) {
    if (watch.seconds() > deadline) throw std::runtime_error("no answer");
    pollfd waiting{stream.descriptor(), events(stream, transfer), 0};
    ::poll(&waiting, 1, 100);
  }
}

// A connection that was accepted and has proven nothing yet.
class Pending {
 public:
  explicit Pending(std::unique_ptr<Stream> stream)
      : stream_(std::move(stream)), nonce_(to_mac(elastic::random_bytes(elastic::kMacBytes))) {}

  // Whether it has proven itself; throws std::runtime_error where it cannot any more.
  bool advance(const Proofs& proofs, int own, const std::set<std::pair<int, int>>& expected) {
    if (watch_.seconds() > kPatience) throw std::runtime_error("too late");
    for (; step_ < 3; ++step_) {
      Transfer& transfer = transfers_[step_];
      if (!transfer.advance(*stream_)) return false;
      if (step_ != 1) continue;
      if (hello_.to != own || !expected.contains({hello_.from, hello_.stream}) ||
          !proofs.fits(hello_.proof, "dialler", nonce_, hello_))
        throw std::runtime_error("not a rank of this run");
      answer_ = proofs.make("acceptor", nonce_, hello_);
    }
    return true;
  }
  pollfd waits_for() const {
    return {stream_->descriptor(), events(*stream_, transfers_[std::min<std::size_t>(step_, 2)]),
            0};
  }
  const Hello& hello() const { return hello_; }
  std::unique_ptr<Stream> take() { return std::move(stream_); }

 private:
  std::unique_ptr<Stream> stream_;
  Mac nonce_, answer_{};
  Hello hello_{};
  std::size_t step_ = 0;
  Transfer transfers_[3] = {{true, &nonce_, sizeof nonce_},
                            {false, &hello_, sizeof hello_},
                            {true, &answer_, sizeof answer_}};
  Stopwatch watch_;
};

// This host's address of the interface, or else the one towards the store.
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

// Listens on a free port of the address.
class Listener {
 public:
  explicit Listener(const std::string& host) : socket_(listen(host)) {}

  std::string port() const {
    sockaddr_storage self{};
    socklen_t size = sizeof self;
    char port[NI_MAXSERV];
    if (::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&self), &size) != 0 ||
        ::getnameinfo(reinterpret_cast<sockaddr*>(&self), size, nullptr, 0, port, sizeof port,
                      NI_NUMERICSERV) != 0)
      throw std::runtime_error("no port");
    return port;
  }
  // A connection, or nothing where none is waiting.
  std::optional<os::Descriptor> accept() const {
    os::Descriptor taken(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!taken.open()) return std::nullopt;
    return taken;
  }
  int descriptor() const { return socket_.get(); }

 private:
  static os::Descriptor listen(const std::string& host) {
    constexpr int kBacklog = 1024;
    const Found found = resolve(host, "0");
    os::Descriptor socket(
        ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.open() || ::bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
        ::listen(socket.get(), kBacklog) != 0)
      throw std::runtime_error(std::strerror(errno));
    return socket;
  }

  os::Descriptor socket_;
};

// A connected socket; throws std::runtime_error.
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

class Mesh {
 public:
  Mesh(Rendezvous& rendezvous, const std::vector<int>& peers, int streams, const Tls* tls)
      : rendezvous_(rendezvous), config_(rendezvous.config()), tls_(tls), streams_(streams) {
    proofs_.run = fmt::format("{}|{}", config_.run_id, config_.generation);
    proofs_.secret = config_.agent_token.empty()
                         ? rendezvous.told(0, "net/secret", elastic::random_bytes(32))
                         : config_.agent_token;
    for (const int peer : peers) {
      found_[peer].resize(static_cast<std::size_t>(streams));
      for (int stream = 0; peer > config_.rank && stream < streams; ++stream)
        expected_.insert({peer, stream});
    }
  }

  Streams connect() {
    const Listener listener = listen();
    std::string failed;
    std::jthread accepting([&](const std::stop_token& stop) {
      try {
        accept_all(listener, stop);
      } catch (const std::exception& error) {
        failed = error.what();
      }
    });
    for (auto& [peer, streams] : found_)
      for (int stream = 0; peer < config_.rank && stream < streams_; ++stream)
        streams[static_cast<std::size_t>(stream)] = dial_rank(peer, stream);
    accepting.join();
    if (!failed.empty()) fail(ErrorKind::kPeerLost, "{}", failed);
    // A rank that cannot have its connections is known to the others before they wait for data.
    if (!rendezvous_.all_agree("net/connected", true))
      fail(ErrorKind::kPeerLost, "rank {}: a rank has not connected", config_.rank);
    return std::move(found_);
  }

 private:
  std::string key(int rank) const { return fmt::format("net/address/{}", rank); }

  Listener listen() {
    try {
      const std::string host = own_address(config_);
      Listener listener(host);
      const std::string address = host + " " + listener.port();
      rendezvous_.store()->set(key(config_.rank), {address.begin(), address.end()});
      return listener;
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      fail(ErrorKind::kUsage, "rank {}: no network device ({}): {}; name an interface of this host",
           config_.rank, config_.interface.empty() ? "default" : config_.interface, error.what());
    }
  }

  std::unique_ptr<Stream> dial_rank(int peer, int stream) {
    constexpr double kFirstPause = 0.02, kLongestPause = 1;
    elastic::Backoff pause(kFirstPause, kLongestPause);
    for (std::string why;;) {
      const double left = config_.connect_timeout_s - watch_.seconds();
      if (left <= 0)
        fail(ErrorKind::kPeerLost, "rank {}: no connection to rank {} within {} s: {}",
             config_.rank, peer, config_.connect_timeout_s, why);
      try {
        const auto value = rendezvous_.store()->get(key(peer));
        const std::string address(value.begin(), value.end());
        const std::size_t space = address.find(' ');
        return introduce(
            dial(address.substr(0, space), address.substr(space + 1), std::min(left, kPatience)),
            peer, stream);
      } catch (const Error&) {
        throw;
      } catch (const std::exception& error) {
        why = gist(error);
      }
      std::this_thread::sleep_for(std::chrono::duration<double>(pause.next()));
    }
  }

  std::unique_ptr<Stream> introduce(os::Descriptor socket, int peer, int stream) {
    Hello hello{config_.rank, peer, stream, 0, to_mac(elastic::random_bytes(32)), {}};
    auto connection =
        tls_ == nullptr
            ? make_plain_stream(std::move(socket))
            : tls_->client(std::move(socket), fmt::format("{}|{} to {} stream {}", proofs_.run,
                                                          config_.rank, peer, stream));
    const Stopwatch watch;
    Mac theirs{}, proof{};
    move(*connection, {false, &theirs, sizeof theirs}, watch, kPatience);
    hello.proof = proofs_.make("dialler", theirs, hello);
    move(*connection, {true, &hello, sizeof hello}, watch, kPatience);
    move(*connection, {false, &proof, sizeof proof}, watch, kPatience);
    if (!proofs_.fits(proof, "acceptor", theirs, hello))
      throw std::runtime_error("what answers does not have the secret");
    return connection;
  }

  void accept_all(const Listener& listener, const std::stop_token& stop) {
    std::deque<std::unique_ptr<Pending>> pending;  // oldest first
    while (!expected_.empty() && !stop.stop_requested()) {
      if (watch_.seconds() > config_.connect_timeout_s)
        throw std::runtime_error(fmt::format("rank {}: rank {} has not connected within {} s",
                                             config_.rank, expected_.begin()->first,
                                             config_.connect_timeout_s));
      std::vector<pollfd> waiting = {{listener.descriptor(), POLLIN, 0}};
      for (const auto& one : pending) waiting.push_back(one->waits_for());
      ::poll(waiting.data(), waiting.size(), 100);
      while (auto socket = listener.accept()) {
        if (pending.size() == kMostPending) pending.pop_front();
        pending.push_back(std::make_unique<Pending>(tls_ == nullptr
                                                        ? make_plain_stream(std::move(*socket))
                                                        : tls_->server(std::move(*socket))));
      }
      std::erase_if(pending, [&](const auto& one) { return settle(*one); });
    }
  }

  // Whether the connection needs no more attention: it is a rank's now, or a stranger's.
  bool settle(Pending& one) {
    try {
      if (!one.advance(proofs_, config_.rank, expected_)) return false;
    } catch (const std::runtime_error&) {
      return true;
    }
    const Hello& hello = one.hello();
    expected_.erase({hello.from, hello.stream});
    found_.at(hello.from)[static_cast<std::size_t>(hello.stream)] = one.take();
    return true;
  }

  Rendezvous& rendezvous_;
  const RendezvousConfig& config_;
  const Tls* tls_;
  int streams_;
  Proofs proofs_;
  Streams found_;                           // each vector is written to by one thread
  std::set<std::pair<int, int>> expected_;  // ranks that are to connect, and their streams
  Stopwatch watch_;
};

}  // namespace

Streams connect_streams(Rendezvous& rendezvous, const std::vector<int>& peers, int streams,
                        const Tls* tls) {
  return Mesh(rendezvous, peers, streams, tls).connect();
}

}  // namespace trireme::comm
