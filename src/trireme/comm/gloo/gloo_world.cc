#include "trireme/comm/gloo/gloo_world.h"

#include <c10/util/Logging.h>

#include <array>
#include <cstring>
#include <deque>
#include <utility>

#include "trireme/comm/gloo/link.h"
#include "trireme/comm/hosts/hosts_world.h"
#include "trireme/comm/local/local_world.h"

namespace trireme::comm {
namespace {

constexpr std::size_t kSmallFrame = 992;
constexpr std::size_t kGlooChunk = std::size_t{256} << 10;

// The first message of every transfer: the stamp, and the payload where it is this small.
struct Frame {
  Stamp stamp;
  std::array<std::byte, kSmallFrame> payload;
};

// A group's address on the link: a tag for each kind of message, so that none can land where another
// belongs.
struct Address {
  int frame_tag;
  int chunk_tag;
  int return_tag;
};

void await(Transport& transport, GlooLink& link, const GlooLink::Work& work, int rank) {
  transport.awaits(rank);
  link.wait(work, rank);
  transport.awaits(watch::kNoRank);
}

class GlooOutgoing : public Outgoing {
 public:
  GlooOutgoing(Transport& transport, GlooLink& link, const Address& address, int rank,
               const Stamp& stamp, std::byte* data)
      : transport_(transport), link_(link), rank_(rank) {
    frame_.stamp = stamp;
    const bool small = stamp.bytes <= kSmallFrame;
    if (small && stamp.bytes > 0) std::memcpy(frame_.payload.data(), data, stamp.bytes);
    if (small) transport.moved();
    works_.push_back(
        link_.send(rank_, address.frame_tag, reinterpret_cast<std::byte*>(&frame_), sizeof(Frame)));
    for (std::size_t begin = 0; begin < stamp.bytes; begin += kGlooChunk) {
      const std::size_t bytes = std::min<std::size_t>(kGlooChunk, stamp.bytes - begin);
      if (!small) {
        transport.moved();
        works_.push_back(link_.send(rank_, address.chunk_tag, data + begin, bytes));
      }
      if (stamp.way == Way::kThereAndBack)
        works_.push_back(link_.recv(rank_, address.return_tag, data + begin, bytes));
    }
  }
  void finish() override {
    for (const auto& work : works_) await(transport_, link_, work, rank_);
  }
  bool leaves_alone() const override { return true; }

 private:
  Transport& transport_;
  GlooLink& link_;
  int rank_;
  Frame frame_{};
  std::vector<GlooLink::Work> works_;
};

class GlooIncoming : public Incoming {
 public:
  GlooIncoming(Transport& transport, GlooLink& link, const Address& address, int rank)
      : transport_(transport), link_(link), address_(address), rank_(rank) {
    frame_work_ =
        link_.recv(rank_, address_.frame_tag, reinterpret_cast<std::byte*>(&frame_), sizeof(Frame));
  }

  const Stamp& stamp() override {
    if (frame_work_) {
      await(transport_, link_, frame_work_, rank_);
      frame_work_.reset();
    }
    return frame_.stamp;
  }

  void land(std::byte* into) override {
    if (stamp().bytes <= kSmallFrame) {
      if (stamp().bytes > 0) std::memcpy(into, frame_.payload.data(), stamp().bytes);
      transport_.moved();
      return;
    }
    while (posted_ < stamp().bytes) post(into + posted_);
  }
  void finish() override {
    while (!works_.empty()) {
      next();
      transport_.moved();
    }
    while (!returns_.empty()) next_return();
  }

  void stream() override {
    if (stamp().bytes <= kSmallFrame) return;
    kept_.resize(kPlaces * kGlooChunk);
    for (std::size_t ahead = 0; ahead < kAhead && posted_ < stamp().bytes; ++ahead)
      post(place(ahead));
  }
  std::size_t chunk() const override { return kGlooChunk; }
  std::byte* lend() override {
    if (stamp().bytes <= kSmallFrame) return frame_.payload.data();
    next();
    return place(lent_);
  }
  void release() override {
    const std::size_t begin = lent_ * kGlooChunk;
    std::byte* chunk = stamp().bytes <= kSmallFrame ? frame_.payload.data() : place(lent_);
    transport_.moved();
    if (frame_.stamp.way == Way::kThereAndBack)
      returns_.push_back(link_.send(rank_, address_.return_tag, chunk,
                                    std::min<std::size_t>(kGlooChunk, frame_.stamp.bytes - begin)));
    ++lent_;
    if (posted_ == frame_.stamp.bytes || stamp().bytes <= kSmallFrame) return;
    // The next chunk reuses the place of one that has been read and, if necessary, returned.
    while (returns_.size() > kPlaces - kAhead) next_return();
    post(place(lent_ - 1 + kAhead));
  }

 private:
  // Chunks under way to here, while as many may be on their way back.
  static constexpr std::size_t kAhead = 2, kPlaces = 2 * kAhead;

  std::byte* place(std::size_t chunk) { return kept_.data() + (chunk % kPlaces) * kGlooChunk; }
  void post(std::byte* into) {
    const std::size_t bytes =
        std::min(kGlooChunk, static_cast<std::size_t>(frame_.stamp.bytes) - posted_);
    works_.push_back(link_.recv(rank_, address_.chunk_tag, into, bytes));
    posted_ += bytes;
  }
  void next() {
    await(transport_, link_, works_.front(), rank_);
    works_.pop_front();
  }
  void next_return() {
    await(transport_, link_, returns_.front(), rank_);
    returns_.pop_front();
  }

  Transport& transport_;
  GlooLink& link_;
  const Address& address_;
  int rank_;
  Frame frame_{};
  std::vector<std::byte> kept_;
  std::size_t posted_ = 0;  // bytes
  std::size_t lent_ = 0;    // chunks
  GlooLink::Work frame_work_;
  std::deque<GlooLink::Work> works_;  // last, so that memory outlives what is in flight
  std::deque<GlooLink::Work> returns_;
};

class GlooTransport : public Transport {
 public:
  GlooTransport(std::shared_ptr<GlooLink> link, Address address)
      : link_(std::move(link)), address_(address) {}
  std::unique_ptr<Outgoing> send(int rank, const Stamp& stamp, std::byte* data) override {
    return std::make_unique<GlooOutgoing>(*this, *link_, address_, rank, stamp, data);
  }
  std::unique_ptr<Incoming> recv(int rank) override {
    return std::make_unique<GlooIncoming>(*this, *link_, address_, rank);
  }
  void abort(const std::string& cause) override { link_->abort(cause); }
  std::optional<std::string> cause() override { return link_->cause(); }

 private:
  std::shared_ptr<GlooLink> link_;
  Address address_;
};

class GlooNetwork final : public Network {
 public:
  explicit GlooNetwork(std::shared_ptr<GlooLink> link) : link_(std::move(link)) {}
  std::string_view via() const override { return "Gloo over TCP"; }
  std::unique_ptr<Transport> transport(const std::string& key, std::size_t) override {
    const int tag = link_->claim_tag(key);
    return std::make_unique<GlooTransport>(link_, Address{tag, tag + 1, tag + 2});
  }
  std::int64_t bytes_sent() const override { return link_->bytes_sent(); }
  void abort(const std::string& cause) override { link_->abort(cause); }
  std::optional<std::string> cause() const override { return link_->cause(); }
  void check_current() override { link_->check_current(); }

 private:
  std::shared_ptr<GlooLink> link_;
};

}  // namespace

std::shared_ptr<Network> make_gloo_network(std::shared_ptr<GlooLink> link) {
  return std::make_shared<GlooNetwork>(std::move(link));
}

void silence_c10d() {
  constexpr int kOnlyErrors = 2;
  FLAGS_caffe2_log_level = kOnlyErrors;
}

std::unique_ptr<World> connect_gloo(std::shared_ptr<Rendezvous> rendezvous) {
  const RendezvousConfig& config = rendezvous->config();
  const int rank = config.rank, size = config.size;
  return make_network_world(rank, size,
                            make_gloo_network(std::make_shared<GlooLink>(std::move(rendezvous))));
}

std::unique_ptr<World> connect_gloo(const RendezvousConfig& config) {
  return connect_gloo(std::make_shared<Rendezvous>(config));
}

}  // namespace trireme::comm
