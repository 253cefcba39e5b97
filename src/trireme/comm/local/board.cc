#include "trireme/comm/local/board.h"

#include <algorithm>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/comm/copy_bytes.h"

namespace trireme::comm {

using State = Notice::State;

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

Board::Board(std::shared_ptr<LocalFate> fate, std::vector<int> ranks)
    : fate_(std::move(fate)),
      ranks_(std::move(ranks)),
      bells_(ranks_.size()),
      notices_(ranks_.size() * ranks_.size()) {}

int Board::position(int rank) const {
  return static_cast<int>(std::ranges::find(ranks_, rank) - ranks_.begin());
}

void Board::wake_all() {
  for (Bell& bell : bells_) bell.ring();
}

Notice& Board::notice(int from, int to, std::uint64_t number) {
  const std::size_t pair =
      static_cast<std::size_t>(from) * bells_.size() + static_cast<std::size_t>(to);
  return notices_[pair][number % kPlaces];
}

template <typename Ready>
void Board::wait(int self, int peer, Ready ready) {
  const Stopwatch watch;
  const auto timeout = std::chrono::duration_cast<Bell::Clock::duration>(
      std::chrono::duration<double>(fate_->timeout_s()));
  const bool woken =
      bells_[self].wait([&] { return ready() || fate_->aborted(); }, Bell::Clock::now() + timeout);
  if (ready()) return;
  throw Lost{ranks_[peer], watch.seconds(),
             woken ? "the world was aborted"
                   : fmt::format("no answer within the timeout of {} s", fate_->timeout_s())};
}

void Board::gave_up(int peer) const { throw Lost{ranks_[peer], 0.0, "the sender gave up"}; }

void Board::wait_unused(int self, const Notice& notice) {
  bells_[self].wait([&] { return notice.state != State::kInUse; }, Bell::Clock::time_point::max());
}

namespace {

// Blocks `self` until ready(), which waits for `peer`. Throws Lost.
template <typename Ready>
void await(Transport& transport, Board& board, int self, int peer, Ready ready) {
  transport.awaits(board.rank(peer));
  board.wait(self, peer, ready);
  transport.awaits(watch::kNoRank);
}

class LocalOutgoing : public Outgoing {
 public:
  LocalOutgoing(Transport& transport, Board& board, int from, int to, Notice& notice)
      : transport_(transport), board_(board), from_(from), to_(to), notice_(notice) {}

  ~LocalOutgoing() override {
    State posted = State::kPosted;
    if (notice_.state.compare_exchange_strong(posted, State::kWithdrawn)) return;
    board_.wait_unused(from_, notice_);
    notice_.state = State::kFree;
  }

  void finish() override {
    await(transport_, board_, from_, to_, [&] { return notice_.state == State::kDone; });
  }

 private:
  Transport& transport_;
  Board& board_;
  int from_;
  int to_;
  Notice& notice_;
};

class LocalIncoming : public Incoming {
 public:
  LocalIncoming(Transport& transport, Board& board, int from, int to, Notice& notice)
      : transport_(transport), board_(board), from_(from), to_(to), notice_(notice) {}
  ~LocalIncoming() override { end_use(); }

  const Stamp& stamp() override {
    if (!announced_)
      await(transport_, board_, to_, from_, [&] { return notice_.state == State::kPosted; });
    announced_ = true;
    return notice_.stamp;
  }

  void land(std::byte* into) override {
    begin_use();
    copy_bytes(into, notice_.data, notice_.stamp.bytes);
    transport_.moved();
    end_use();
  }
  void finish() override {}

  void stream() override { begin_use(); }
  std::size_t chunk() const override { return kChunk; }
  std::byte* lend() override { return notice_.data + lent_; }
  void release() override {
    transport_.moved();
    lent_ += kChunk;
  }

 private:
  static constexpr std::size_t kChunk = std::size_t{256} << 10;

  void begin_use() {
    stamp();
    State posted = State::kPosted;
    using_ = notice_.state.compare_exchange_strong(posted, State::kInUse);
    if (!using_) board_.gave_up(from_);
  }
  void end_use() {
    if (!std::exchange(using_, false)) return;
    notice_.state = State::kDone;
    board_.ring(from_);
  }

  Transport& transport_;
  Board& board_;
  int from_;
  int to_;
  Notice& notice_;
  std::size_t lent_ = 0;
  bool announced_ = false;
  bool using_ = false;
};

class LocalTransport : public Transport {
 public:
  LocalTransport(std::shared_ptr<Board> board, int position,
                 std::function<void(const std::string&)> abort)
      : board_(std::move(board)),
        position_(position),
        abort_(std::move(abort)),
        sent_(board_->size()),
        received_(board_->size()) {}

  std::unique_ptr<Outgoing> send(int rank, const Stamp& stamp, std::byte* data) override {
    const int peer = board_->position(rank);
    Notice& notice = board_->notice(position_, peer, sent_[peer]++);
    TRIREME_CHECK(notice.state == State::kFree, "more messages to one rank than places");
    notice.stamp = stamp;
    notice.data = data;
    notice.state = State::kPosted;
    board_->ring(peer);
    return std::make_unique<LocalOutgoing>(*this, *board_, position_, peer, notice);
  }
  std::unique_ptr<Incoming> recv(int rank) override {
    const int peer = board_->position(rank);
    Notice& notice = board_->notice(peer, position_, received_[peer]++);
    return std::make_unique<LocalIncoming>(*this, *board_, peer, position_, notice);
  }
  void abort(const std::string& cause) override { abort_(cause); }
  std::optional<std::string> cause() override {
    // The flag first: asked before every operation, and nearly always clear.
    return board_->fate().aborted() ? board_->fate().cause() : std::nullopt;
  }

 private:
  std::shared_ptr<Board> board_;
  int position_;
  std::function<void(const std::string&)> abort_;
  std::vector<std::uint64_t> sent_;
  std::vector<std::uint64_t> received_;
};

}  // namespace

std::unique_ptr<Transport> make_local_transport(std::shared_ptr<Board> board, int position,
                                                std::function<void(const std::string&)> abort) {
  return std::make_unique<LocalTransport>(std::move(board), position, std::move(abort));
}

}  // namespace trireme::comm
