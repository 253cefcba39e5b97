// Movers: execute the segments of transfers, a few at a time. Internal to the component.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "trireme/base/error.h"
#include "trireme/base/scratch/kernel.h"
#include "trireme/base/scratch/pages.h"
#include "trireme/base/scratch/scratch.h"

namespace trireme::scratch {

// Counts bytes, and the time in which there is something to do.
class Meter {
 public:
  void begin(Direction direction);
  void end(Direction direction, std::int64_t bytes);
  Traffic traffic() const;

 private:
  struct Count {
    int open = 0;
    std::int64_t bytes = 0;
    std::chrono::steady_clock::time_point since;
    std::chrono::steady_clock::duration busy{};
  };
  mutable std::mutex mutex_;
  Count counts_[2];
};

// A transfer, which ends with the last of its segments.
struct Ticket::State {
  State(Meter& meter, Direction direction, std::int64_t bytes, int pieces);
  void end_piece(const std::optional<Error>& failure);

  Meter& meter;
  const Direction direction;
  const std::int64_t bytes;
  std::mutex mutex;
  std::condition_variable changed;
  int pieces;                                   // not yet ended
  std::chrono::steady_clock::time_point ended;  // the last of them
  std::optional<Error> failure;
};

// The remaining part of a segment of a transfer, at most kPiece long.
inline constexpr std::int64_t kPiece = std::int64_t{1} << 20;
struct Piece {
  std::shared_ptr<Ticket::State> transfer;
  Request rest;
  int stalls = 0;  // attempts in a row that moved nothing
};

// Destination of segments: named in errors, with the rules for requests.
struct Place {
  std::string name;
  bool direct = false;
};

// One request at a time of one segment. It is staged where direct I/O cannot use its memory, and continued where it
// fell short.
class Slot {
 public:
  explicit Slot(const Place& place) : staging_(place.direct ? kPiece : 0) {}
  void start(Piece piece, const Place& place);
  const Request& request() const { return request_; }
  // Takes the result of request(). True if the segment has ended; else there is another request.
  bool finish(std::int64_t result, const Place& place);

 private:
  void next(const Place& place);
  void end(const std::optional<Error>& failure);
  Piece piece_;
  Request request_;
  Pages staging_;
  bool staged_ = false;
};

// Waiting segments, in order for each direction; neither direction waits for the other's.
class Backlog {
 public:
  void add(std::deque<Piece> pieces);
  std::optional<Piece> take();  // none: nothing is there now
  std::optional<Piece> wait();  // none: closed
  // Drops what waits; nothing may be added from here.
  void close();
  bool closed() const;

 private:
  std::optional<Piece> next();
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Piece> pieces_[2];
  int turn_ = 0;
  bool closed_ = false;
};

// Its destructor ends what it has begun and drops the rest.
class Mover {
 public:
  virtual ~Mover() = default;
  virtual void submit(std::deque<Piece> pieces) = 0;
};

using TransferCall = std::function<std::int64_t(const Request&)>;

// `threads` threads that each carry out one request after the other.
std::unique_ptr<Mover> make_threads(TransferCall call, Place place, int threads);

// One thread that keeps up to `depth` requests in an io_uring. Returns nothing, and the cause as an errno, if io_uring
// is not available.
std::unique_ptr<Mover> make_ring(Kernel& kernel, int file, Place place, int depth, int& cause);

}  // namespace trireme::scratch
