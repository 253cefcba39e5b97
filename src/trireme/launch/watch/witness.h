// Witness: who is told of what a rank records, as it happens.
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
  // Of an operation, from 0: this chunk has been written or read here, and the peer has not been told yet.
  std::optional<std::uint64_t> chunk{};
  bool ended = false;  // of an operation
};

class Witness {
 public:
  virtual ~Witness() = default;
  // By the thread that is there, which goes on when this returns: any of a rank's.
  virtual void see(const Moment& moment) = 0;
};

}  // namespace trireme::watch
