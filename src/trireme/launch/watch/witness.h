// Witness: receives a rank's records, as they happen.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "trireme/launch/watch/area.h"

namespace trireme::watch {

// A phase is entered, a line of the plan begins, or an operation of a group begins, is at a chunk, or has ended.
struct Moment {
  Phase phase = Phase::kStart;
  std::int64_t step = 0;
  int line = -1;               // the one under way
  std::string_view what{};     // of a line its verb, of an operation its kind; empty: a phase
  std::string_view group{};    // of an operation
  std::uint64_t sequence = 0;  // of an operation within its group
  // Chunk of an operation, from 0: it has been written or read here, and the peer does not know it yet.
  std::optional<std::uint64_t> chunk{};
  bool ended = false;  // of an operation
};

class Witness {
 public:
  virtual ~Witness() = default;
  // Called in the recording thread, any of a rank's, which continues when this returns.
  virtual void see(const Moment& moment) = 0;
};

}  // namespace trireme::watch
