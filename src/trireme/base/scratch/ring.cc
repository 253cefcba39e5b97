#ifdef TRIREME_IO_URING

#include <liburing.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "trireme/base/scratch/mover.h"

namespace trireme::scratch {
namespace {

// A descriptor that another thread makes readable.
class Bell {
 public:
  Bell() : file_(::eventfd(0, EFD_CLOEXEC)) {
    if (file_ < 0)
      fail(ErrorKind::kData, "cannot make an event descriptor: {}", std::strerror(errno));
  }
  ~Bell() { ::close(file_); }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  int file() const { return file_; }
  void ring() const {
    const std::uint64_t one = 1;
    while (::write(file_, &one, sizeof one) < 0 && errno == EINTR) continue;
  }

 private:
  int file_;
};

// One thread does all work on the ring: a buffered write copies in the submitting call, which must not delay the
// caller.
class Ring : public Mover {
 public:
  Ring(Kernel& kernel, const ::io_uring& ring, int file, Place place, int depth)
      : kernel_(kernel), ring_(ring), file_(file), place_(std::move(place)) {
    for (int i = 0; i < depth; ++i) idle_.push_back(&slots_.emplace_back(place_));
    thread_ = std::thread([this] { run(); });
  }
  ~Ring() override {
    backlog_.close();
    bell_.ring();
    thread_.join();
    ::io_uring_queue_exit(&ring_);
  }

  void submit(std::deque<Piece> pieces) override {
    backlog_.add(std::move(pieces));
    bell_.ring();
  }

 private:
  void run() {
    listen();
    while (listening_ || idle_.size() < slots_.size()) {
      begin_waiting_pieces();
      const int submitted = ::io_uring_submit_and_wait(&ring_, 1);
      // A request that could not be submitted is still in the queue; the kernel is short of memory for the moment.
      if (submitted < 0 && submitted != -EINTR)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ::io_uring_cqe* done = nullptr;
      while (::io_uring_peek_cqe(&ring_, &done) == 0) {
        auto* const slot = static_cast<Slot*>(::io_uring_cqe_get_data(done));
        const std::int64_t result = done->res;
        ::io_uring_cqe_seen(&ring_, done);
        slot == nullptr ? heard() : finish(*slot, result);
      }
    }
  }

  void begin_waiting_pieces() {
    while (!idle_.empty()) {
      std::optional<Piece> piece = backlog_.take();
      if (!piece) return;
      Slot& slot = *idle_.back();
      idle_.pop_back();
      slot.start(std::move(*piece), place_);
      prepare(slot);
    }
  }

  void finish(Slot& slot, std::int64_t result) {
    if (slot.finish(kernel_.completed(slot.request(), result), place_))
      idle_.push_back(&slot);
    else
      prepare(slot);
  }

  void prepare(Slot& slot) {
    const Request& request = slot.request();
    const auto bytes = static_cast<unsigned>(request.bytes);
    const auto offset = static_cast<std::uint64_t>(request.offset);
    ::io_uring_sqe* const entry = next_entry();
    if (request.direction == Direction::kWrite)
      ::io_uring_prep_write(entry, file_, request.data, bytes, offset);
    else
      ::io_uring_prep_read(entry, file_, request.data, bytes, offset);
    ::io_uring_sqe_set_data(entry, &slot);
  }

  void listen() {
    ::io_uring_sqe* const entry = next_entry();
    ::io_uring_prep_read(entry, bell_.file(), &rung_, sizeof rung_, 0);
    ::io_uring_sqe_set_data(entry, nullptr);
    listening_ = true;
  }

  void heard() {
    listening_ = false;
    if (!backlog_.closed()) listen();
  }

  // There is one for every slot and the bell.
  ::io_uring_sqe* next_entry() {
    ::io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
    TRIREME_CHECK(entry != nullptr, "the ring has no entry for one of {} requests", slots_.size());
    return entry;
  }

  Kernel& kernel_;
  ::io_uring ring_;
  const int file_;
  const Place place_;
  Bell bell_;
  Backlog backlog_;
  std::deque<Slot> slots_;
  std::vector<Slot*> idle_;
  bool listening_ = false;
  std::uint64_t rung_ = 0;
  std::thread thread_;
};

}  // namespace

int Kernel::open_ring(unsigned entries, ::io_uring* ring) {
  return ::io_uring_queue_init(entries, ring, 0);
}

std::unique_ptr<Mover> make_ring(Kernel& kernel, int file, Place place, int depth, int& cause) {
  ::io_uring ring{};
  cause = -kernel.open_ring(static_cast<unsigned>(depth) + 1, &ring);
  if (cause != 0) return nullptr;
  return std::make_unique<Ring>(kernel, ring, file, std::move(place), depth);
}

}  // namespace trireme::scratch

#endif
