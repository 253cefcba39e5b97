// Area: the memory in which a rank records its activity. Its layout serves a reader that may belong to another process
// and may come when the writer is stopped or dead. Zero bytes are a valid empty area.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace trireme::watch {

inline constexpr std::size_t kRecords = 512;  // a power of two; the newest stay
inline constexpr std::size_t kTracks = 128;
inline constexpr std::size_t kLists = 4;
inline constexpr std::size_t kWords = 8 << 20;  // bytes; only what is written costs memory
inline constexpr std::uint32_t kVersion = 2;
inline constexpr int kNoRank = -1, kUnknownRank = -2;  // in place of an awaited rank

// For functions that read or write records concurrently: torn data is shown torn, and decides nothing.
#define TRIREME_TORN __attribute__((no_sanitize("thread")))

// Activity of a rank's main thread.
enum class Phase : std::uint8_t { kStart, kTraining, kEvaluation, kCheckpoint, kCallbacks, kEnd };
inline constexpr int kPhases = 6;

// One thing that was done, or is being done while `end_ns` is 0. Times are of the host's monotonic clock.
struct Record {
  std::atomic<std::uint64_t> number;  // 1-based; 0 while the rest is being written
  std::int64_t begin_ns;
  std::int64_t end_ns;
  std::uint64_t bytes;     // of an operation
  std::uint64_t sequence;  // of an operation within its track; of a line: its step
  std::int32_t line;       // of the rank's list; -1: outside of a step
  std::int16_t track;      // -1: a line of a list
  std::int16_t peer;       // world rank; -1: all of the track's; of a line: its list
  char what[16];           // "all_reduce", "forward"; ends with a zero byte
};
static_assert(sizeof(Record) == 64);

// A group of ranks, whose operations run one after the other.
struct alignas(64) Track {
  char name[32];
  std::uint32_t members_at, members;   // world ranks, as int32 in the words
  std::atomic<std::uint64_t> begun;    // operations of all members, up to and with the running one
  std::atomic<std::uint64_t> running;  // its record's number; 0: none
  std::atomic<std::uint64_t> chunks;   // of data that the running one has moved
  std::atomic<std::int32_t> awaited;   // world rank that it waits for, kNoRank or kUnknownRank
  std::uint64_t bytes, sequence;
  std::int32_t peer;
  char what[16];
};

struct Text {
  std::uint32_t at, length;  // in the words
};

// Texts of the lines of a plan's list.
struct List {
  std::uint32_t texts_at;  // Texts, in the words
  std::atomic<std::uint32_t> lines;
};

struct Area {
  std::uint32_t version;                // 0: its rank has not met the others
  std::int32_t rank, world, process;    // process 0: no process has arrived
  std::atomic<std::uint64_t> recorded;  // records begun
  std::atomic<std::uint64_t> moves;     // counts up with everything that happens
  std::atomic<std::int32_t> waiting;    // threads that wait for other ranks
  std::atomic<std::int32_t> lost;       // world rank + 1 that did not answer; 0: none
  std::atomic<std::int64_t> step;       // 1-based: the one under way, or the last
  std::atomic<std::int32_t> list, line, micro_batch;
  std::atomic<std::uint8_t> phase;
  std::atomic<std::uint32_t> tracks;      // made
  std::atomic<std::uint32_t> lists;       // described
  std::atomic<std::uint32_t> words_used;  // bytes
  List described[kLists];
  Track track[kTracks];
  Record record[kRecords];
  char words[kWords];
};

}  // namespace trireme::watch
