// Recorder: a rank's own side of its flight record. Writing costs some tens of nanoseconds and never blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/os/descriptor.h"
#include "trireme/launch/watch/area.h"

namespace trireme::watch {

class Witness;

inline constexpr int kAllMembers = -1;

// An operation of a track as it is recorded.
struct Doing {
  std::string_view what;
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;
  int peer = kAllMembers;  // world rank
  int line = -1;           // of the rank's list, that asked for it
  int awaited = kNoRank;   // until await() says more; kUnknownRank where it never does
};

// Written by the main thread and the communication threads of one rank; each function names its thread.
class Recorder {
 public:
  // In memory of its own.
  Recorder();
  // In memory that shared_area() made, so that another process can read it. Throws Error{kInternal}.
  explicit Recorder(int descriptor);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder();

  const Area& area() const { return *area_; }

  // Receives everything that is recorded from now on, and outlives it; call it before any other thread records.
  void show(Witness* witness) { witness_ = witness; }

  // The main thread's.
  void identify(int rank, int world);
  void enter(Phase phase, std::int64_t step);
  // Sets the texts of a list's lines; those that do not fit have no text. Returns the list's number.
  int describe(const std::vector<std::string>& lines);
  void begin_line(std::string_view what, int list, int line, int micro_batch);
  void end_line();
  // The one under way; -1: none.
  int line() const { return area_->line.load(std::memory_order_relaxed); }
  // Seconds that threads of this rank have waited for others, so far.
  double waited_s() const { return static_cast<double>(waited_ns_.load()) * 1e-9; }

  // Any thread's. Returns -1 if there is no free track, which the functions below ignore. In names longer than 31
  // characters a digest replaces the end.
  int make_track(std::string_view name, const std::vector<int>& ranks);
  // For one thread at a time on each track.
  void begin(int track, const Doing& what);
  void end(int track);
  // Within its operation a chunk of data has moved, and it waits for no rank.
  void chunk(int track) {
    if (track < 0) return;
    Track& at = area_->track[track];
    at.awaited.store(kNoRank, std::memory_order_relaxed);
    if (witness_ != nullptr) [[unlikely]]
      report_chunk(track);
    at.chunks.store(at.chunks.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    area_->moves.fetch_add(1, std::memory_order_release);
  }
  // From here its operation waits for a world rank: to its next chunk, or until kNoRank is given.
  void await(int track, int rank) {
    if (track >= 0) area_->track[track].awaited.store(rank, std::memory_order_relaxed);
  }
  // A world rank did not answer, and this one gives up.
  void lose(int rank) { area_->lost.store(rank + 1); }

 private:
  friend class Waiting;
  std::uint64_t record(const Record& what);
  std::uint32_t reserve(std::size_t bytes);

  void report(int track, const char* what, std::uint64_t sequence, bool ended,
              std::optional<std::uint64_t> chunk = std::nullopt);
  void report_chunk(int track);

  Area* area_;
  Witness* witness_ = nullptr;
  std::uint64_t line_record_ = 0;
  std::atomic<std::int64_t> waited_ns_{0};
};

// While it lives, an operation of a track is under way.
class Underway {
 public:
  Underway(Recorder& recorder, int track, const Doing& what) : recorder_(recorder), track_(track) {
    recorder_.begin(track_, what);
  }
  ~Underway() { recorder_.end(track_); }
  Underway(const Underway&) = delete;
  Underway& operator=(const Underway&) = delete;

 private:
  Recorder& recorder_;
  int track_;
};

// While it lives, the calling thread waits for other ranks. `recorder` may be null.
class Waiting {
 public:
  explicit Waiting(Recorder* recorder);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  Recorder* recorder_;
  std::int64_t since_ns_ = 0;
};

// Memory for one recorder that a child process inherits. Other processes cannot reach it, and it is freed with its last
// owner. Throws Error{kUsage} if the machine has no free memory for it.
os::Descriptor shared_area();
// The child says there that it has come, long before it records anything. Throws as a Recorder.
void claim_area(int descriptor);
// Read only. Throws Error{kInternal}.
std::shared_ptr<const Area> map_area(int descriptor);

}  // namespace trireme::watch
