// Reports about a run: its progress, and its faults.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::elastic {

// How far the run has come.
struct Progress {
  std::int64_t durable_step = 0;  // of the newest checkpoint
  std::int64_t last_step = 0;
  std::int64_t memory_step = 0;  // of the newest snapshot in this host's memory; 0: none
};

// A fault, once it is repaired or given up. Kinds: rank killed, rank failed, rank hung, rank silent, rank interrupted,
// host lost.
struct Fault {
  std::string kind{};
  int rank = -1;
  std::string host{};
  std::int64_t step = 0;  // that could not be finished
  std::string op{};       // what that rank was at
  std::uint64_t generation = 0;
  std::string cause{};
  std::string action{};  // restart, stop, report
  double lost_s = 0;     // until a step came that the run had not made before
};

}  // namespace trireme::elastic
