#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "trireme/comm/net/link.h"

namespace trireme::comm {
namespace {

using net::chunk_size;
using net::chunks_of;
using net::kInline;

// Chunks in which a message there and back returns.
std::size_t returns(const Stamp& stamp) {
  return stamp.bytes == 0 ? 0 : std::max<std::size_t>(chunks_of(stamp.bytes), 1);
}

class SocketTransport final : public Transport {
 public:
  // Bytes under way to this rank from each of `others`.
  SocketTransport(std::shared_ptr<SocketLink> link, std::uint64_t channel, std::size_t others)
      : link_(std::move(link)),
        channel_(channel),
        ahead_(std::clamp(std::bit_floor(kAheadOfAll / std::max<std::size_t>(others, 1)),
                          2 * net::kMostChunk, kAhead)) {}

  std::unique_ptr<Outgoing> send(int rank, const Stamp& stamp, std::byte* data) override;
  std::unique_ptr<Incoming> recv(int rank) override;
  void abort(const std::string& cause) override { link_->abort(cause); }
  std::optional<std::string> cause() override { return link_->cause(); }

  SocketLink& link() { return *link_; }
  // Blocks until ready(), which waits for the rank. Throws Lost.
  template <typename Ready>
  void await(int rank, Ready ready) {
    awaits(rank);
    link_->wait(rank, ready);
    awaits(watch::kNoRank);
  }
  // Chunks of a message of so many bytes that are under way.
  std::size_t ahead(std::size_t bytes) const { return ahead_ / chunk_size(bytes); }

  // Memory of what a message has under way, one way or both; kept for the next message.
  using Chunks = std::unique_ptr<std::byte[]>;
  Chunks borrow() {
    if (free_.empty()) return std::make_unique_for_overwrite<std::byte[]>(2 * ahead_);
    Chunks chunks = std::move(free_.back());
    free_.pop_back();
    return chunks;
  }
  void give_back(Chunks chunks) {
    if (chunks) free_.push_back(std::move(chunks));
  }

 private:
  // 2 MiB hide 100 ms at 160 Mbit/s.
  static constexpr std::size_t kAhead = std::size_t{2} << 20, kAheadOfAll = std::size_t{16} << 20;

  std::shared_ptr<SocketLink> link_;
  std::uint64_t channel_;
  std::size_t ahead_;
  std::map<int, std::uint64_t> sent_, received_;
  std::vector<Chunks> free_;
};

class SocketOutgoing final : public Outgoing {
 public:
  SocketOutgoing(SocketTransport& transport, int rank, net::MessageId id, const Stamp& stamp,
                 std::byte* data)
      : transport_(transport) {
    departure_.rank = rank;
    departure_.id = id;
    departure_.stamp = stamp;
    departure_.data = data;
    departure_.left.start(chunks_of(stamp.bytes));
    departure_.returned.start(returns(stamp));
    if (stamp.bytes <= kInline) transport_.moved();
    transport_.link().post(departure_);
  }
  ~SocketOutgoing() override { transport_.link().withdraw(departure_); }

  void finish() override {
    const Stamp& stamp = departure_.stamp;
    const std::size_t chunks = chunks_of(stamp.bytes);
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      transport_.await(departure_.rank, [&] { return departure_.left.count() > chunk; });
      transport_.moved();
    }
    if (chunks == 0)
      transport_.await(departure_.rank, [&] {
        return transport_.link().has_written(departure_.rank, departure_.posted);
      });
    if (stamp.way != Way::kThereAndBack) return;
    transport_.await(departure_.rank,
                     [&] { return departure_.returned.count() >= returns(stamp); });
  }
  bool leaves_alone() const override { return true; }

 private:
  SocketTransport& transport_;
  Departure departure_;
};

class SocketIncoming final : public Incoming {
 public:
  SocketIncoming(SocketTransport& transport, int rank, net::MessageId id) : transport_(transport) {
    arrival_.rank = rank;
    arrival_.id = id;
    transport_.link().expect(arrival_);
  }
  ~SocketIncoming() override {
    transport_.link().forget(arrival_);
    transport_.give_back(std::move(kept_));
  }

  const Stamp& stamp() override {
    transport_.await(arrival_.rank, [&] { return arrival_.announced.load(); });
    return arrival_.stamp;
  }

  void land(std::byte* into) override {
    if (small()) {
      std::memcpy(into, arrival_.small.data(), stamp().bytes);
      transport_.moved();
      return;
    }
    landing_ = true;
    take_chunks(into, 0);
    transport_.link().grant(arrival_, chunks());
  }
  void finish() override {
    if (landing_) {
      for (std::size_t chunk = 0; chunk < chunks(); ++chunk) {
        wait_for(chunk);
        transport_.moved();
      }
    } else if (stamp().way == Way::kThereAndBack) {
      wait_for_returns(lent_);
    }
  }

  void stream() override {
    if (small()) return;
    kept_ = transport_.borrow();
    take_chunks(kept_.get(), 2 * ahead());
    transport_.link().grant(arrival_, std::min(chunks(), ahead()));
  }
  std::size_t chunk() const override { return chunk_size(arrival_.stamp.bytes); }
  std::byte* lend() override {
    if (small()) return arrival_.small.data();
    wait_for(lent_);
    return arrival_.place(lent_);
  }
  void release() override {
    transport_.moved();
    const bool back = stamp().way == Way::kThereAndBack;
    if (back && lent_ == 0) arrival_.returned.start(returns(stamp()));
    if (back) transport_.link().send_back(arrival_, lent_);
    ++lent_;
    if (small()) return;
    const std::size_t upto = std::min(chunks(), lent_ + ahead());
    // The next chunk reuses the place of one that has been read and, if necessary, returned.
    if (back && upto > arrival_.places) wait_for_returns(upto - arrival_.places);
    transport_.link().grant(arrival_, upto);
  }

 private:
  bool small() { return stamp().bytes <= kInline; }
  std::size_t chunks() { return chunks_of(stamp().bytes); }
  std::size_t ahead() { return transport_.ahead(stamp().bytes); }
  void take_chunks(std::byte* memory, std::size_t places) {
    arrival_.memory = memory;
    arrival_.places = places;
    arrival_.arrived.start(chunks());
  }
  void wait_for(std::size_t chunk) {
    transport_.await(arrival_.rank, [&] { return arrival_.arrived.count() > chunk; });
  }
  void wait_for_returns(std::size_t count) {
    transport_.await(arrival_.rank, [&] { return arrival_.returned.count() >= count; });
  }

  SocketTransport& transport_;
  Arrival arrival_;
  SocketTransport::Chunks kept_;
  std::size_t lent_ = 0;  // chunks
  bool landing_ = false;
};

std::unique_ptr<Outgoing> SocketTransport::send(int rank, const Stamp& stamp, std::byte* data) {
  return std::make_unique<SocketOutgoing>(*this, rank, net::MessageId{channel_, sent_[rank]++},
                                          stamp, data);
}

std::unique_ptr<Incoming> SocketTransport::recv(int rank) {
  return std::make_unique<SocketIncoming>(*this, rank, net::MessageId{channel_, received_[rank]++});
}

}  // namespace

std::unique_ptr<Transport> make_socket_transport(std::shared_ptr<SocketLink> link,
                                                 std::uint64_t channel, std::size_t others) {
  return std::make_unique<SocketTransport>(std::move(link), channel, others);
}

}  // namespace trireme::comm
