#include "trireme/base/scratch/mover.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace trireme::scratch {
namespace {

constexpr int kMaxStalls = 100;

std::optional<Error> failure(const Request& request, std::int64_t result, const Place& place) {
  const bool writing = request.direction == Direction::kWrite;
  const char* cause = result < 0   ? std::strerror(static_cast<int>(-result))
                      : result > 0 ? "too little is moved at a time"
                      : writing    ? "nothing is taken"
                                   : "the file ends before";
  const char* way_out = result == -ENOSPC ? "free space there or choose another directory"
                                          : "check the disk or choose another directory";
  return Error(
      ErrorKind::kData,
      fmt::format("{}: cannot {} {} bytes at offset {} of the scratch file: {}; {}", place.name,
                  writing ? "write" : "read", request.bytes, request.offset, cause, way_out));
}

}  // namespace

void Meter::begin(Direction direction) {
  const std::lock_guard lock(mutex_);
  Count& count = counts_[static_cast<int>(direction)];
  if (count.open++ == 0) count.since = std::chrono::steady_clock::now();
}

void Meter::end(Direction direction, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  Count& count = counts_[static_cast<int>(direction)];
  count.bytes += bytes;
  if (--count.open == 0) count.busy += std::chrono::steady_clock::now() - count.since;
}

Traffic Meter::traffic() const {
  const std::lock_guard lock(mutex_);
  const auto seconds = [](const Count& count) {
    return std::chrono::duration<double>(count.busy).count();
  };
  const Count& write = counts_[static_cast<int>(Direction::kWrite)];
  const Count& read = counts_[static_cast<int>(Direction::kRead)];
  return {.written = write.bytes,
          .read = read.bytes,
          .write_s = seconds(write),
          .read_s = seconds(read)};
}

Ticket::State::State(Meter& meter, Direction direction, std::int64_t bytes, int pieces)
    : meter(meter), direction(direction), bytes(bytes), pieces(pieces) {
  meter.begin(direction);
}

void Ticket::State::end_piece(const std::optional<Error>& cause) {
  const std::lock_guard lock(mutex);
  if (cause && !failure) failure = cause;
  if (--pieces > 0) return;
  meter.end(direction, failure ? 0 : bytes);
  ended = std::chrono::steady_clock::now();
  changed.notify_all();
}

void Ticket::wait() const {
  if (!state_) return;
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->pieces == 0; });
  if (state_->failure) throw *state_->failure;
}

bool Ticket::done() const {
  if (!state_) return true;
  const std::lock_guard lock(state_->mutex);
  return state_->pieces == 0;
}

std::chrono::steady_clock::time_point Ticket::ended() const {
  if (!state_) return {};
  const std::lock_guard lock(state_->mutex);
  return state_->ended;
}

void Slot::start(Piece piece, const Place& place) {
  piece_ = std::move(piece);
  next(place);
}

void Slot::next(const Place& place) {
  request_ = piece_.rest;
  staged_ = place.direct && (!on_page(request_.data) || request_.bytes % kPage != 0);
  if (!staged_) return;
  request_.bytes = whole_pages(request_.bytes);
  request_.data = staging_.data();
  if (request_.direction == Direction::kRead) return;
  std::memcpy(request_.data, piece_.rest.data, static_cast<std::size_t>(piece_.rest.bytes));
  std::fill(request_.data + piece_.rest.bytes, request_.data + request_.bytes, std::byte{0});
}

bool Slot::finish(std::int64_t result, const Place& place) {
  Request& rest = piece_.rest;
  const bool retried = result == -EINTR || result == -EAGAIN;
  std::int64_t moved = std::clamp(result, std::int64_t{0}, rest.bytes);
  if (place.direct && moved < rest.bytes) moved -= moved % kPage;  // where the next may begin
  piece_.stalls = moved > 0 ? 0 : piece_.stalls + 1;
  if ((result <= 0 && !retried) || piece_.stalls == kMaxStalls) {
    end(failure(rest, result, place));
    return true;
  }
  if (staged_ && rest.direction == Direction::kRead)
    std::memcpy(rest.data, request_.data, static_cast<std::size_t>(moved));
  rest.data += moved;
  rest.offset += moved;
  rest.bytes -= moved;
  if (rest.bytes > 0) {
    next(place);
    return false;
  }
  end(std::nullopt);
  return true;
}

// The waiting thread may free the memory at once.
void Slot::end(const std::optional<Error>& failure) {
  std::exchange(piece_.transfer, nullptr)->end_piece(failure);
}

void Backlog::add(std::deque<Piece> pieces) {
  {
    const std::lock_guard lock(mutex_);
    TRIREME_CHECK(!closed_, "a transfer begins after its scratch space was closed");
    for (Piece& piece : pieces)
      pieces_[static_cast<int>(piece.rest.direction)].push_back(std::move(piece));
  }
  changed_.notify_all();
}

std::optional<Piece> Backlog::next() {
  if (pieces_[turn_].empty()) turn_ = 1 - turn_;
  if (pieces_[turn_].empty()) return std::nullopt;
  Piece piece = std::move(pieces_[turn_].front());
  pieces_[turn_].pop_front();
  turn_ = 1 - turn_;
  return piece;
}

std::optional<Piece> Backlog::take() {
  const std::lock_guard lock(mutex_);
  return next();
}

std::optional<Piece> Backlog::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || !pieces_[0].empty() || !pieces_[1].empty(); });
  return next();
}

void Backlog::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    for (std::deque<Piece>& pieces : pieces_) {
      for (Piece& piece : pieces)
        piece.transfer->end_piece(
            Error(ErrorKind::kInternal, "scratch space was closed before a transfer began"));
      pieces.clear();
    }
  }
  changed_.notify_all();
}

bool Backlog::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace trireme::scratch
