#include "trireme/comm/net/mesh.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/comm/net/acceptor.h"
#include "trireme/comm/net/dialler.h"
#include "trireme/launch/elastic/backoff.h"

namespace trireme::comm {

using net::asking_key;
using net::Dialling;
using net::Hello;
using net::kDirectPatience;
using net::kPatience;
using net::Pending;

namespace {

constexpr std::size_t kMostPending = 256;  // besides those of ranks
constexpr const char* kFailed = "net/failed";

}  // namespace

class Mesh::Body {
 public:
  Body(Rendezvous& rendezvous, const std::vector<int>& peers, int streams, const Tls* tls)
      : rendezvous_(rendezvous), config_(rendezvous.config()), tls_(tls), streams_(streams) {
    proofs_.run = fmt::format("{}|{}", config_.run_id, config_.generation);
    proofs_.secret = config_.agent_token.empty()
                         ? rendezvous.text_of(0, "net/secret", elastic::random_bytes(32))
                         : config_.agent_token;
    for (const int peer : peers) {
      found_[peer].resize(static_cast<std::size_t>(streams));
      ways_[peer].resize(static_cast<std::size_t>(streams), Dialling::kDirect);
      for (int stream = 0; peer > config_.rank && stream < streams; ++stream)
        expected_.insert({peer, stream});
    }
    acceptor_.emplace(tls_, proofs_, config_.rank, peers, streams);
  }

  Streams connect() {
    try {
      return connect_all();
    } catch (const std::exception& error) {
      tell_failure(error.what());
      throw;
    }
  }

  void keep(Keeping keeping) {
    {
      std::lock_guard lock(mutex_);
      keeping_ = std::move(keeping);
    }
    accepting_ = std::jthread([this](const std::stop_token& stop) { accept_all(stop); });
    redialling_ = std::jthread([this](const std::stop_token& stop) { redial_all(stop); });
  }

  bool relayed(int rank) const { return std::ranges::count(ways_.at(rank), Dialling::kRelay) > 0; }

  void reconnect(int rank, int stream) {
    std::lock_guard lock(mutex_);
    if (!is_cut(rank, stream)) cuts_.push_back({.rank = rank, .stream = stream});
    changed_.notify_all();
  }

 private:
  using Place = std::pair<int, int>;  // rank, stream
  struct Cut {
    int rank = 0, stream = 0, number = 0;  // number: of the resumption that is tried
    Stopwatch since{};
  };

  bool is_cut(int rank, int stream) const {
    return std::ranges::any_of(
        cuts_, [&](const Cut& cut) { return cut.rank == rank && cut.stream == stream; });
  }

  Streams connect_all() {
    listener_.emplace(net::listen(rendezvous_));
    std::jthread accepting([&](const std::stop_token& stop) { accept_all(stop); });
    for (auto& [peer, streams] : found_)
      for (int stream = 0; peer < config_.rank && stream < streams_; ++stream)
        dial_rank(peer, stream);
    for (elastic::Backoff pause(0.002, 0.05); !is_missing_none();) {
      check_others();
      dial_those_who_asked();
      std::this_thread::sleep_for(std::chrono::duration<double>(pause.next()));
    }
    accepting.request_stop();
    accepting.join();
    if (!failed_.empty()) fail(ErrorKind::kPeerLost, "{}", failed_);
    if (config_.resume_s > 0)
      for (const auto& [peer, streams] : found_) dialler_.address_of(peer);
    return std::move(found_);
  }

  bool is_missing_none() {
    std::lock_guard lock(mutex_);
    return expected_.empty() || !failed_.empty();
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

  bool is_set(const std::string& name) { return rendezvous_.store()->check({name}); }
  // By this rank, which is the higher one.
  void dial_rank(int peer, int stream) {
    elastic::Backoff pause(0.02, 1);
    const Stopwatch tried;
    bool asked = false;
    for (std::string why;;) {
      const double left = config_.connect_timeout_s - watch_.seconds();
      if (left <= 0)
        fail(ErrorKind::kPeerLost, "rank {}: no connection to rank {} within {} s: {}",
             config_.rank, peer, config_.connect_timeout_s, why);
      check_others();
      try {
        if (!asked) {
          found_.at(peer)[stream] =
              dialler_.introduce(dialler_.direct(peer, std::min(left, kPatience)), peer, stream, {})
                  .first;
          return;
        }
        if (const std::lock_guard lock(mutex_); !expected_.contains({peer, stream})) {
          ways_[peer][stream] = Dialling::kReverse;
          return;
        }
        if (!config_.relay.empty() &&
            is_set(asking_key(Dialling::kRelay, config_.rank, peer, stream))) {
          auto relayed =
              dialler_.introduce(dialler_.relayed(peer, stream, kPatience), peer, stream, {}).first;
          std::lock_guard lock(mutex_);
          expected_.erase({peer, stream});
          found_.at(peer)[stream] = std::move(relayed);
          ways_[peer][stream] = Dialling::kRelay;
          return;
        }
      } catch (const Error&) {
        throw;
      } catch (const std::exception& error) {
        why = gist(error);
      }
      if (!asked && (config_.listens || !config_.relay.empty()) &&
          (dialler_.knows_nowhere(peer) || tried.seconds() > kDirectPatience)) {
        asked = true;
        {
          std::lock_guard lock(mutex_);
          expected_.insert({peer, stream});
        }
        rendezvous_.store()->set(asking_key(Dialling::kReverse, config_.rank, peer, stream), {1});
      }
      std::this_thread::sleep_for(std::chrono::duration<double>(pause.next()));
    }
  }
  // By this rank, which is the lower one of those.
  void dial_those_who_asked() {
    constexpr double kLook = 0.1;
    if (watch_.seconds() - asked_at_ < kLook) return;
    asked_at_ = watch_.seconds();
    std::set<Place> missing;
    {
      std::lock_guard lock(mutex_);
      missing = expected_;
    }
    for (const auto& [peer, stream] : missing) {
      const auto met = met_.find({peer, stream});
      if (met != met_.end() && met->second.seconds() < kPatience) continue;  // it greets there
      if (peer < config_.rank ||
          !is_set(asking_key(Dialling::kReverse, peer, config_.rank, stream)))
        continue;
      try {
        auto own =
            dialler_.introduce(dialler_.direct(peer, kDirectPatience), peer, stream, {}).first;
        std::lock_guard lock(mutex_);
        expected_.erase({peer, stream});
        found_.at(peer)[stream] = std::move(own);
        ways_[peer][stream] = Dialling::kReverse;
        continue;
      } catch (const std::exception&) {
        if (config_.relay.empty()) continue;
      }
      rendezvous_.store()->set(asking_key(Dialling::kRelay, peer, config_.rank, stream), {1});
      try {
        adopt(dialler_.relayed(peer, stream, kPatience));
        ways_[peer][stream] = Dialling::kRelay;
        met_[{peer, stream}] = Stopwatch();
      } catch (const std::runtime_error&) {
        // It tries again until the time is over.
      }
    }
  }

  void adopt(os::Descriptor socket) {
    std::lock_guard lock(mutex_);
    adopted_.push_back(std::move(socket));
  }

  // Until all that are expected have come, or for as long as connections are kept.
  void accept_all(const std::stop_token& stop) {
    try {
      std::deque<std::unique_ptr<Pending>> pending;  // oldest first
      while (!stop.stop_requested()) {
        std::vector<pollfd> waiting = {{listener_->descriptor(), POLLIN, 0}};
        for (const auto& one : pending) waiting.push_back(one->waits_for());
        ::poll(waiting.data(), waiting.size(), 10);
        std::vector<os::Descriptor> adopted;
        {
          std::lock_guard lock(mutex_);
          adopted.swap(adopted_);
          if (!keeping_.arrived && !expected_.empty() &&
              watch_.seconds() > config_.connect_timeout_s)
            throw std::runtime_error(fmt::format("rank {}: rank {} has not connected within {} s",
                                                 config_.rank, expected_.begin()->first,
                                                 config_.connect_timeout_s));
        }
        const auto take = [&](os::Descriptor& socket) {
          if (auto one = acceptor_->take(std::move(socket))) pending.push_back(std::move(one));
        };
        for (os::Descriptor& socket : adopted) take(socket);
        while (auto socket = listener_->accept()) {
          if (pending.size() == kMostPending) pending.pop_front();
          take(*socket);
        }
        std::erase_if(pending, [&](const auto& one) { return settle(*one); });
      }
    } catch (const std::exception& error) {
      std::lock_guard lock(mutex_);
      failed_ = error.what();
    }
  }

  bool expects(const Hello& hello) {
    std::lock_guard lock(mutex_);
    if (hello.to != config_.rank) return false;
    if (hello.resumption == 0) return expected_.contains({hello.from, hello.stream});
    return keeping_.arrived && ways_.contains(hello.from) && hello.stream >= 0 &&
           hello.stream < streams_ && acceptor_->is_newer(hello);
  }

  // Whether the connection needs no more attention: it is a rank's now, or a stranger's.
  bool settle(Pending& one) {
    try {
      const bool proven = one.advance(
          proofs_, [&](const Hello& hello) { return expects(hello); },
          [&](const Hello& hello) {
            acceptor_->note(hello);
            return keeping_.arrived(hello.from, hello.stream);
          });
      if (!proven) return false;
    } catch (const std::runtime_error&) {
      return true;
    }
    const Hello& hello = one.hello();
    if (hello.resumption != 0) {
      if (acceptor_->is_newest(hello)) resumed(hello.from, hello.stream, one.take(), one.arrived());
      return true;
    }
    std::lock_guard lock(mutex_);
    expected_.erase({hello.from, hello.stream});
    found_.at(hello.from)[hello.stream] = one.take();
    return true;
  }

  void resumed(int rank, int stream, std::unique_ptr<Stream> connection, std::uint64_t arrived) {
    {
      std::lock_guard lock(mutex_);
      std::erase_if(cuts_,
                    [&](const Cut& cut) { return cut.rank == rank && cut.stream == stream; });
      changed_.notify_all();
    }
    keeping_.resumed(rank, stream, std::move(connection), arrived);
  }

  // Makes the connections again that are cut, or watches whether the rank that has to do so is still there.
  void redial_all(const std::stop_token& stop) {
    constexpr std::chrono::milliseconds kPause(200);
    while (!stop.stop_requested()) {
      std::vector<Cut> cuts;
      {
        std::unique_lock lock(mutex_);
        if (!changed_.wait(lock, stop, [&] { return !cuts_.empty(); })) return;
        for (Cut& cut : cuts_) cut.number = ++tried_;
        cuts = cuts_;
      }
      // At the same time, since both sides of a pair have to be at the relay.
      std::vector<std::jthread> redials;
      for (const Cut& cut : cuts) redials.emplace_back([this, cut] { redial(cut); });
      redials.clear();
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop, kPause, [] { return false; });
    }
  }

  void redial(const Cut& cut) {
    const auto& [rank, stream, number, since] = cut;
    const Dialling way = ways_.at(rank)[stream];
    const bool high = config_.rank > rank;
    try {
      if (way == Dialling::kRelay && !high) {
        adopt(dialler_.relayed(rank, stream, kDirectPatience));
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, std::chrono::seconds(2), [&] { return !is_cut(rank, stream); });
      } else if (way == Dialling::kRelay || high == (way == Dialling::kDirect)) {
        os::Descriptor socket = way == Dialling::kRelay
                                    ? dialler_.relayed(rank, stream, kDirectPatience)
                                    : dialler_.direct(rank, kDirectPatience);
        auto [connection, arrived] = dialler_.introduce(
            std::move(socket), rank, stream,
            {.number = number, .arrived = [&] { return keeping_.arrived(rank, stream); }});
        return resumed(rank, stream, std::move(connection), arrived);
      } else {
        dialler_.direct(rank, kDirectPatience);
      }
    } catch (const Refused&) {
      if (way != Dialling::kRelay) return gone(rank, "its process is not there any more");
    } catch (const std::exception&) {
      // Perhaps later.
    }
    if (since.seconds() > config_.resume_s)
      gone(rank, fmt::format("no new connection within {} s", config_.resume_s));
  }
  void gone(int rank, const std::string& why) {
    {
      std::lock_guard lock(mutex_);
      std::erase_if(cuts_, [&](const Cut& cut) { return cut.rank == rank; });
    }
    keeping_.gone(rank, why);
  }

  Rendezvous& rendezvous_;
  const RendezvousConfig& config_;
  const Tls* tls_;
  int streams_, tried_ = 0;  // tried: resumptions, of mutex_
  net::Proofs proofs_;
  std::map<int, std::vector<Dialling>> ways_;
  net::Dialler dialler_{rendezvous_, tls_, proofs_};
  std::optional<Listener> listener_;
  std::optional<net::Acceptor> acceptor_;
  Stopwatch watch_;
  double looked_at_ = 0, asked_at_ = 0;
  std::map<Place, Stopwatch> met_;  // at the relay, by the lower rank
  std::mutex mutex_;                // of what follows
  std::condition_variable_any changed_;
  Streams found_;
  std::set<Place> expected_;  // ranks that are to connect, and their streams
  std::vector<os::Descriptor> adopted_;
  std::string failed_;
  Keeping keeping_;
  std::vector<Cut> cuts_;
  std::jthread accepting_, redialling_;
};

Mesh::Mesh(Rendezvous& rendezvous, const std::vector<int>& peers, int streams, const Tls* tls)
    : body_(std::make_unique<Body>(rendezvous, peers, streams, tls)) {}
Mesh::~Mesh() = default;
Streams Mesh::connect() { return body_->connect(); }
void Mesh::keep(Keeping keeping) { body_->keep(std::move(keeping)); }
bool Mesh::relayed(int rank) const { return body_->relayed(rank); }
void Mesh::reconnect(int rank, int stream) { body_->reconnect(rank, stream); }

}  // namespace trireme::comm
