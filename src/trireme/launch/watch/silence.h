// Silences: which ranks of a host have done nothing for too long. Pure: no memory of others, no clock, no I/O.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "trireme/launch/watch/state.h"

namespace trireme::watch {

// In seconds.
struct Patience {
  double steps = 5;  // within a step
  double factor =
      3;  // or as many times the longest that any rank of the host has been silent within a step
  double rest = 60;  // in the first step, and outside of steps, whose duration is unknown
  double pause = 1;  // when nothing was checked for longer, this host slept: no rank's fault
};

class Silences {
 public:
  Silences(const Patience& patience, double now) : patience_(patience), looked_at_(now) {}

  // To be called before the ranks of a moment are looked at.
  void look(double now);
  struct Heard {
    double seconds = 0;    // for which it has been silent; 0: not longer than it may
    bool in_step = false;  // and it is known how long things take
  };
  // Records the present state of `rank`. The limit of a stopped process is that within steps.
  Heard heard(int rank, std::uint64_t moves, Phase phase, std::int64_t step, double now,
              bool stopped = false);
  // Nothing is known of it.
  void forget(int rank) { ranks_.erase(rank); }

 private:
  struct Rank {
    std::uint64_t moves = 0;
    double since = 0;
    std::int64_t first_step = -1;
    std::optional<double> stopped{};  // since when it was seen to be
    bool within = false;              // steps
    bool stepping = false;            // later ones than its first
  };
  double limit(const Rank& rank) const;
  double limit_in_steps() const;

  Patience patience_;
  double looked_at_;
  double longest_ = 0;  // within a step
  std::map<int, Rank> ranks_;
};

}  // namespace trireme::watch
