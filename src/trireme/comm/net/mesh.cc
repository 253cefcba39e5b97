#include "trireme/comm/net/mesh.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/comm/net/listener.h"
#include "trireme/launch/elastic/backoff.h"
#include "trireme/launch/elastic/secret.h"

namespace trireme::comm {
namespace {

constexpr double kPatience = 10;           // seconds for one connection to prove itself
constexpr std::size_t kMostPending = 256;  // besides those of ranks
constexpr int kAccepts = 16;               // connections taken before those that there are get on
constexpr const char* kFailed = "net/failed";

using Mac = std::array<char, elastic::kMacBytes>;

// Handshake of a connection, in this order: a nonce of the acceptor, a Hello of the dialler, a proof of the acceptor,
// one byte of the dialler.
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
  const bool out = stream.waits_for_space(transfer.out());
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
    for (; step_ < kSteps; ++step_) {
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
    return {stream_->descriptor(), events(*stream_, transfers_[std::min(step_, kSteps - 1)]), 0};
  }
  const Hello& hello() const { return hello_; }
  std::unique_ptr<Stream> take() { return std::move(stream_); }

 private:
  std::unique_ptr<Stream> stream_;
  Mac nonce_, answer_{};
  Hello hello_{};
  char confirmed_ = 0;
  static constexpr std::size_t kSteps = 4;
  std::size_t step_ = 0;
  Transfer transfers_[kSteps] = {{true, &nonce_, sizeof nonce_},
                                 {false, &hello_, sizeof hello_},
                                 {true, &answer_, sizeof answer_},
                                 {false, &confirmed_, sizeof confirmed_}};
  Stopwatch watch_;
};

class Mesh {
 public:
  Mesh(Rendezvous& rendezvous, const std::vector<int>& peers, int streams, const Tls* tls)
      : rendezvous_(rendezvous), config_(rendezvous.config()), tls_(tls), streams_(streams) {
    proofs_.run = fmt::format("{}|{}", config_.run_id, config_.generation);
    proofs_.secret = config_.agent_token.empty()
                         ? rendezvous.text_of(0, "net/secret", elastic::random_bytes(32))
                         : config_.agent_token;
    for (const int peer : peers) {
      found_[peer].resize(static_cast<std::size_t>(streams));
      for (int stream = 0; peer > config_.rank && stream < streams; ++stream)
        expected_.insert({peer, stream});
    }
  }

  Streams connect() {
    try {
      return connect_all();
    } catch (const std::exception& error) {
      tell_failure(error.what());
      throw;
    }
  }

 private:
  Streams connect_all() {
    const Listener listener = listen();
    std::string failed;
    std::atomic<bool> accepted = false;
    std::jthread accepting([&](const std::stop_token& stop) {
      try {
        accept_all(listener, stop);
      } catch (const std::exception& error) {
        failed = error.what();
      }
      accepted = true;
    });
    for (auto& [peer, streams] : found_)
      for (int stream = 0; peer < config_.rank && stream < streams_; ++stream)
        streams[stream] = dial_rank(peer, stream);
    while (!accepted) {
      check_others();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    accepting.join();
    if (!failed.empty()) fail(ErrorKind::kPeerLost, "{}", failed);
    return std::move(found_);
  }

  // A rank that cannot have its connections says why, and the others do not wait for it.
  void tell_failure(std::string_view why) {
    try {
      if (!rendezvous_.store()->check({kFailed}))
        rendezvous_.store()->set(kFailed, {why.begin(), why.end()});
    } catch (const std::exception&) {
      // The store is gone, which the others see as well.
    }
  }
  void check_others() {
    constexpr double kLook = 0.2;
    if (watch_.seconds() - looked_at_ < kLook) return;
    looked_at_ = watch_.seconds();
    if (!rendezvous_.store()->check({kFailed})) return;
    const auto why = rendezvous_.store()->get(kFailed);
    fail(ErrorKind::kPeerLost, "rank {}: another rank could not connect: {}", config_.rank,
         std::string(why.begin(), why.end()));
  }

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
      check_others();
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
    char confirmed = 1;
    move(*connection, {true, &confirmed, sizeof confirmed}, watch, kPatience);
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
        take(std::move(*socket), pending);
      }
      std::erase_if(pending, [&](const auto& one) { return settle(*one); });
    }
  }

  void take(os::Descriptor socket, std::deque<std::unique_ptr<Pending>>& pending) {
    try {
      pending.push_back(std::make_unique<Pending>(tls_ == nullptr
                                                      ? make_plain_stream(std::move(socket))
                                                      : tls_->server(std::move(socket))));
    } catch (const std::runtime_error&) {
      // It has ended already.
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
    found_.at(hello.from)[hello.stream] = one.take();
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
  double looked_at_ = 0;
};

}  // namespace

Streams connect_streams(Rendezvous& rendezvous, const std::vector<int>& peers, int streams,
                        const Tls* tls) {
  return Mesh(rendezvous, peers, streams, tls).connect();
}

}  // namespace trireme::comm
