// LaneOrder: what is known to be complete before each line of a list starts.
#pragma once

#include <array>
#include <vector>

#include "trireme/plan/plan.h"

namespace trireme::plan {

inline constexpr int kLanes = 6;

// Lines of a lane start and complete in order; a line starts when those it names in `after`, and with
// them all earlier ones of their lanes, have completed. One vector clock a line, over lanes.
class LaneOrder {
 public:
  LaneOrder() = default;
  explicit LaneOrder(const List& list) {
    for (const Instr& line : list) push(line.lane, line.after);
  }

  // Appends a line.
  void push(Lane lane, const std::vector<int>& after);
  // The fewest of `lines` that order all of them before a line appended to `lane`; ascending.
  std::vector<int> needed(Lane lane, std::vector<int> lines) const;
  // Whether `earlier` has completed whenever `later` starts.
  bool before(int earlier, int later) const;

 private:
  using Clock = std::array<int, kLanes>;  // latest line of each lane known to be complete, or -1
  static constexpr Clock kNone = {-1, -1, -1, -1, -1, -1};
  static void merge(Clock& into, const Clock& other);
  Clock completion(int line) const;

  std::vector<Lane> lanes_;
  std::vector<Clock> starts_;
  Clock latest_ = kNone;  // last line of each lane
};

}  // namespace trireme::plan
