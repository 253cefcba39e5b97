#include <algorithm>
#include <bit>
#include <deque>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/comm/copy_bytes.h"
#include "trireme/comm/shm/link.h"

namespace trireme::comm {
namespace {

// Only a sleeper looks whether the others still run.
constexpr auto kLook = std::chrono::milliseconds(50);

// What is to leave or to arrive; the transport moves it on in every wait.
struct Departure {
  Stamp stamp;
  std::byte* data;
  std::size_t sent = 0;
  std::size_t returned = 0;
  bool written = false;  // all of it, where no byte is a chunk as well
  bool complete() const {
    return written && (stamp.way != Way::kThereAndBack || returned == stamp.bytes);
  }
};

struct Arrival {
  std::byte* into;
  std::size_t bytes;
  std::size_t landed = 0;
  bool complete = false;
};

class ShmTransport : public Transport {
 public:
  ShmTransport(std::shared_ptr<ShmLink> link, std::string key, std::vector<int> ranks, int rank)
      : link_(std::move(link)),
        key_(std::move(key)),
        ranks_(std::move(ranks)),
        rank_(rank),
        chunk_(Rings::chunk(static_cast<int>(ranks_.size()))),
        peers_(ranks_.size()) {
    if (rank_ == 0) rings_ = link_->rings(key_, ranks_, rank_);
  }

  std::unique_ptr<Outgoing> send(int rank, const Stamp& stamp, std::byte* data) override;
  std::unique_ptr<Incoming> recv(int rank) override;
  void abort(const std::string& cause) override { link_->abort(cause); }
  std::optional<std::string> cause() override { return link_->cause(); }

  // Functions that a message needs; peers are indices in the group.
  std::size_t chunk() const { return chunk_; }
  void cancel(int peer, Departure& departure);
  void cancel(int peer) { at(peer).arrival = nullptr; }
  void land(int peer, Arrival& arrival) { at(peer).arrival = &arrival; }
  bool has_chunk(int peer) {
    return at(peer).taken < in(peer).written.load(std::memory_order_acquire);
  }
  const Stamp& stamp(int peer) { return in(peer).stamps[at(peer).taken % kPlaces]; }
  std::byte* chunk_of(int peer) { return rings_->place(peer, rank_, at(peer).taken); }
  void give_back(int peer);
  // Blocks until ready(), moving meanwhile what can be moved. Throws Lost.
  template <typename Ready>
  void wait(int peer, Ready ready);

 private:
  struct Peer {
    std::deque<Departure*> departures;  // not wholly written
    std::array<Departure*, kPlaces> returning{};
    std::uint64_t written = 0;
    std::uint64_t collected = 0;  // of those: read, and back where they belong
    Arrival* arrival = nullptr;
    std::uint64_t taken = 0;
  };
  Peer& at(int peer) { return peers_[peer]; }
  Ring& in(int peer) { return rings_->ring(peer, rank_); }
  Ring& out(int peer) { return rings_->ring(rank_, peer); }
  void open() {
    if (rings_) return;
    awaits(ranks_[0]);
    rings_ = link_->rings(key_, ranks_, rank_);
    awaits(watch::kNoRank);
  }
  int position(int rank) const {
    return static_cast<int>(std::ranges::find(ranks_, rank) - ranks_.begin());
  }
  void move();
  void collect(int peer);
  void write(int peer);
  void take(int peer);

  std::shared_ptr<ShmLink> link_;
  std::string key_;
  std::vector<int> ranks_;
  int rank_;
  std::size_t chunk_;
  std::vector<Peer> peers_;
  std::shared_ptr<Rings>
      rings_;  // the group's first rank has them at once, others when they need them
};

class ShmOutgoing : public Outgoing {
 public:
  ShmOutgoing(ShmTransport& transport, int peer, const Stamp& stamp, std::byte* data)
      : transport_(transport), peer_(peer), departure_{stamp, data} {}
  ~ShmOutgoing() override { transport_.cancel(peer_, departure_); }
  Departure& departure() { return departure_; }
  void finish() override {
    transport_.wait(peer_, [this] { return departure_.complete(); });
  }

 private:
  ShmTransport& transport_;
  int peer_;
  Departure departure_;
};

class ShmIncoming : public Incoming {
 public:
  ShmIncoming(ShmTransport& transport, int peer) : transport_(transport), peer_(peer) {}
  ~ShmIncoming() override { transport_.cancel(peer_); }

  const Stamp& stamp() override {
    if (!announced_) {
      transport_.wait(peer_, [this] { return transport_.has_chunk(peer_); });
      stamp_ = transport_.stamp(peer_);
    }
    announced_ = true;
    return stamp_;
  }
  void land(std::byte* into) override {
    arrival_ = {into, stamp().bytes};
    transport_.land(peer_, arrival_);
  }
  void stream() override {
    // Not even a message of no bytes stays in its place.
    if (stamp().bytes == 0) transport_.give_back(peer_);
    arrival_.complete = true;
  }
  std::size_t chunk() const override { return transport_.chunk(); }
  std::byte* lend() override {
    transport_.wait(peer_, [this] { return transport_.has_chunk(peer_); });
    return transport_.chunk_of(peer_);
  }
  void release() override { transport_.give_back(peer_); }
  void finish() override {
    transport_.wait(peer_, [this] { return arrival_.complete; });
  }

 private:
  ShmTransport& transport_;
  int peer_;
  Stamp stamp_;
  Arrival arrival_{};
  bool announced_ = false;
};

std::unique_ptr<Outgoing> ShmTransport::send(int rank, const Stamp& stamp, std::byte* data) {
  open();
  const int peer = position(rank);
  auto message = std::make_unique<ShmOutgoing>(*this, peer, stamp, data);
  at(peer).departures.push_back(&message->departure());
  collect(peer);
  write(peer);
  return message;
}

std::unique_ptr<Incoming> ShmTransport::recv(int rank) {
  open();
  return std::make_unique<ShmIncoming>(*this, position(rank));
}

void ShmTransport::cancel(int peer, Departure& departure) {
  std::erase(at(peer).departures, &departure);
  std::ranges::replace(at(peer).returning, &departure, nullptr);
}

void ShmTransport::give_back(int peer) {
  moved();
  in(peer).read.store(++at(peer).taken, std::memory_order_release);
  rings_->bell(peer).ring();
}

void ShmTransport::move() {
  for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
    const Peer& state = at(peer);
    if (state.collected < state.written) collect(peer);
    if (!state.departures.empty()) write(peer);
    if (state.arrival != nullptr) take(peer);
  }
}

void ShmTransport::collect(int peer) {
  Peer& state = at(peer);
  const std::uint64_t read = out(peer).read.load(std::memory_order_acquire);
  for (; state.collected < read; ++state.collected) {
    Departure* home = std::exchange(state.returning[state.collected % kPlaces], nullptr);
    if (home == nullptr) continue;
    const std::size_t bytes = std::min<std::size_t>(chunk_, home->stamp.bytes - home->returned);
    copy_bytes(home->data + home->returned, rings_->place(rank_, peer, state.collected), bytes);
    moved();
    home->returned += bytes;
  }
}

void ShmTransport::write(int peer) {
  Peer& state = at(peer);
  Ring& ring = out(peer);
  while (!state.departures.empty() && state.written - state.collected < kPlaces) {
    Departure& next = *state.departures.front();
    const std::size_t place = state.written % kPlaces;
    const std::size_t bytes = std::min<std::size_t>(chunk_, next.stamp.bytes - next.sent);
    ring.stamps[place] = next.stamp;
    copy_bytes(rings_->place(rank_, peer, state.written), next.data + next.sent, bytes);
    moved();
    next.sent += bytes;
    next.written = next.sent == next.stamp.bytes;
    if (next.stamp.way == Way::kThereAndBack && bytes > 0) state.returning[place] = &next;
    if (next.written) state.departures.pop_front();
    ring.written.store(++state.written, std::memory_order_release);
    rings_->bell(peer).ring();
  }
}

void ShmTransport::take(int peer) {
  Peer& state = at(peer);
  while (state.arrival != nullptr && has_chunk(peer)) {
    Arrival& arrival = *state.arrival;
    const std::size_t bytes = std::min(chunk_, arrival.bytes - arrival.landed);
    copy_bytes(arrival.into + arrival.landed, chunk_of(peer), bytes);
    arrival.landed += bytes;
    arrival.complete = arrival.landed == arrival.bytes;
    if (arrival.complete) state.arrival = nullptr;
    give_back(peer);
  }
}

template <typename Ready>
void ShmTransport::wait(int peer, Ready ready) {
  const int awaited = ranks_[peer];
  const auto look = [&] {
    move();
    const bool come = ready();
    awaits(come ? watch::kNoRank : awaited);
    return come;
  };
  if (look()) return;
  const Stopwatch watch;
  while (!rings_->bell(rank_).wait(look, Bell::Clock::now() + kLook)) {
    const bool ended = link_->ended(awaited);
    // Recomputed: it may have answered and ended since.
    if (look()) return;
    link_->judge(awaited, ended, watch.seconds());
  }
}

}  // namespace

std::size_t Rings::chunk(int size) {
  constexpr std::size_t kSmallest = std::size_t{16} << 10, kOfARank = std::size_t{256} << 10;
  return std::max(kSmallest, std::bit_floor(kOfARank / static_cast<std::size_t>(size)));
}

std::unique_ptr<Transport> make_shm_transport(std::shared_ptr<ShmLink> link, const std::string& key,
                                              const std::vector<int>& ranks, int rank) {
  return std::make_unique<ShmTransport>(std::move(link), key, ranks, rank);
}

}  // namespace trireme::comm
