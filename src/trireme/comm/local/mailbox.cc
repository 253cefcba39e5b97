#include "trireme/comm/local/mailbox.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"

namespace trireme::comm {

std::optional<std::string> LocalFate::cause() const {
  std::lock_guard lock(mutex_);
  return cause_;
}

bool LocalFate::abort(const std::string& cause) {
  std::lock_guard lock(mutex_);
  if (cause_) return false;
  cause_ = cause;
  aborted_ = true;
  return true;
}

Mailboxes::Mailboxes(std::shared_ptr<LocalFate> fate, int size)
    : fate_(std::move(fate)), boxes_(static_cast<std::size_t>(size)) {
  for (Box& box : boxes_) box.inbox.resize(boxes_.size());
}

void Mailboxes::wake_all() {
  for (Box& box : boxes_) {
    // With the lock, so that no one can be between looking at the fate and falling asleep.
    std::lock_guard lock(box.mutex);
    box.changed.notify_all();
  }
}

template <typename Ready>
void Mailboxes::wait(Box& box, std::unique_lock<std::mutex>& lock, int peer, Ready ready) {
  const Stopwatch watch;
  const auto deadline = std::chrono::steady_clock::now() +
                        std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                            std::chrono::duration<double>(fate_->timeout_s()));
  const bool woken =
      box.changed.wait_until(lock, deadline, [&] { return ready() || fate_->aborted(); });
  if (ready()) return;
  throw Lost{peer, watch.seconds(),
             woken ? "the world was aborted"
                   : fmt::format("no answer within the timeout of {} s", fate_->timeout_s())};
}

std::shared_ptr<Parcel> Mailboxes::post(int from, int to, const Stamp& stamp,
                                        const std::byte* data) {
  auto parcel = std::make_shared<Parcel>(Parcel{stamp, data});
  {
    std::lock_guard lock(box(to).mutex);
    box(to).inbox[static_cast<std::size_t>(from)].push_back(parcel);
  }
  box(to).changed.notify_one();
  return parcel;
}

std::shared_ptr<Parcel> Mailboxes::take(int from, int to) {
  std::unique_lock lock(box(to).mutex);
  auto& queue = box(to).inbox[static_cast<std::size_t>(from)];
  wait(box(to), lock, from, [&] { return !queue.empty(); });
  auto parcel = std::move(queue.front());
  queue.pop_front();
  return parcel;
}

bool Mailboxes::begin_reading(int from, Parcel& parcel) {
  std::lock_guard lock(box(from).mutex);
  if (parcel.state != Parcel::State::kPosted) return false;
  parcel.state = Parcel::State::kReading;
  return true;
}

void Mailboxes::end_reading(int from, Parcel& parcel) {
  {
    std::lock_guard lock(box(from).mutex);
    parcel.state = Parcel::State::kDone;
  }
  box(from).changed.notify_one();
}

void Mailboxes::wait_read(int from, int to, Parcel& parcel) {
  std::unique_lock lock(box(from).mutex);
  wait(box(from), lock, to, [&] { return parcel.state == Parcel::State::kDone; });
}

void Mailboxes::withdraw(int from, Parcel& parcel) {
  std::unique_lock lock(box(from).mutex);
  if (parcel.state == Parcel::State::kPosted) parcel.state = Parcel::State::kWithdrawn;
  box(from).changed.wait(lock, [&] { return parcel.state != Parcel::State::kReading; });
}

namespace {

class LocalOutgoing : public Outgoing {
 public:
  LocalOutgoing(Mailboxes& mailboxes, int from, int to, std::shared_ptr<Parcel> parcel)
      : mailboxes_(mailboxes), from_(from), to_(to), parcel_(std::move(parcel)) {}
  ~LocalOutgoing() override { mailboxes_.withdraw(from_, *parcel_); }
  void finish() override { mailboxes_.wait_read(from_, to_, *parcel_); }

 private:
  Mailboxes& mailboxes_;
  int from_;
  int to_;
  std::shared_ptr<Parcel> parcel_;
};

class LocalIncoming : public Incoming {
 public:
  LocalIncoming(Mailboxes& mailboxes, int from, int to)
      : mailboxes_(mailboxes), from_(from), to_(to) {}
  ~LocalIncoming() override { release(); }

  const Stamp& stamp() override {
    if (!parcel_) parcel_ = mailboxes_.take(from_, to_);
    return parcel_->stamp;
  }

  void land(std::byte* into) override {
    claim();
    if (parcel_->stamp.bytes > 0) std::memcpy(into, parcel_->data, parcel_->stamp.bytes);
    release();
  }
  void finish() override {}

  void stream() override { claim(); }
  const std::byte* lend() override {
    const std::byte* chunk = parcel_->data + lent_;
    lent_ += kChunk;
    return chunk;
  }

 private:
  void claim() {
    stamp();
    if (!mailboxes_.begin_reading(from_, *parcel_)) throw Lost{from_, 0.0, "the sender gave up"};
    reading_ = true;
  }
  void release() {
    if (std::exchange(reading_, false)) mailboxes_.end_reading(from_, *parcel_);
  }

  Mailboxes& mailboxes_;
  int from_;
  int to_;
  std::shared_ptr<Parcel> parcel_;
  std::size_t lent_ = 0;
  bool reading_ = false;
};

class LocalTransport : public Transport {
 public:
  LocalTransport(std::shared_ptr<Mailboxes> mailboxes, int rank,
                 std::function<void(const std::string&)> abort)
      : mailboxes_(std::move(mailboxes)), rank_(rank), abort_(std::move(abort)) {}

  std::unique_ptr<Outgoing> send(int peer, const Stamp& stamp, const std::byte* data) override {
    return std::make_unique<LocalOutgoing>(*mailboxes_, rank_, peer,
                                           mailboxes_->post(rank_, peer, stamp, data));
  }
  std::unique_ptr<Incoming> recv(int peer) override {
    return std::make_unique<LocalIncoming>(*mailboxes_, peer, rank_);
  }
  void abort(const std::string& cause) override { abort_(cause); }
  std::optional<std::string> cause() override {
    // The flag first: asked before every operation, and nearly always clear.
    return mailboxes_->fate().aborted() ? mailboxes_->fate().cause() : std::nullopt;
  }

 private:
  std::shared_ptr<Mailboxes> mailboxes_;
  int rank_;
  std::function<void(const std::string&)> abort_;
};

}  // namespace

std::unique_ptr<Transport> make_local_transport(std::shared_ptr<Mailboxes> mailboxes, int rank,
                                                std::function<void(const std::string&)> abort) {
  return std::make_unique<LocalTransport>(std::move(mailboxes), rank, std::move(abort));
}

}  // namespace trireme::comm
