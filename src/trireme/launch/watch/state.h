// State: what a rank was doing when somebody looked, read from its area.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/launch/watch/area.h"

namespace trireme::watch {

// An operation under way.
struct Operation {
  std::string track;
  std::vector<int> members;  // world ranks
  std::string what;          // "all_reduce"
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;
  int peer = -1;               // world rank; -1: all members
  std::uint64_t chunks = 0;    // that it has moved
  int awaited = kUnknownRank;  // world rank that it waits for, or kNoRank
  bool operator==(const Operation&) const = default;
};

// How far a rank has come in operations that all members of a track take part in.
struct Reached {
  std::string track;
  std::vector<int> members;
  std::uint64_t begun = 0;
  bool operator==(const Reached&) const = default;
};

struct State {
  int rank = 0;
  std::uint64_t moves = 0;  // counts up with everything that happens
  Phase phase = Phase::kStart;
  std::int64_t step = 0;  // 1-based; 0: before the first
  int line = -1;          // of the rank's list; -1: between lines
  int micro_batch = -1;
  std::string line_text{};
  bool waiting = false;  // for other ranks, in the operations below
  std::vector<Operation> operations{};
  std::vector<Reached> reached{};
  char process = 'R';  // as /proc/PID/stat has it: R S D T t Z; X: ended
  bool operator==(const State&) const = default;
};

State read_state(const Area& area);

// Whether the rank waits for others. False if its process is stopped, in any state of its threads, and if one of its
// operations waits for no rank.
bool waits(const State& state);
// Such an operation, which the rank is stuck in where nothing moves. Null: none.
const Operation* stuck_in(const State& state);

// "line 37 `forward block2 mb=1` of step 41, micro-batch 1", "checkpoint after step 40".
std::string doing(const State& state);
// "all_reduce #12 of 'dp' (4096 bytes)", with "to rank 3" or "from rank 3" of send and recv.
std::string describe(const Operation& operation);

// The newest records, oldest first, a line each: seconds before `now_ns`, how long, what.
std::vector<std::string> last_records(const Area& area, std::size_t count, std::int64_t now_ns);

std::string_view name(Phase phase);
// Where nothing takes much longer than it took before.
bool within_steps(Phase phase);

}  // namespace trireme::watch
