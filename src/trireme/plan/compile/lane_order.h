// LaneOrder: what is known to be complete before each line of a list starts.
#pragma once

#include <vector>

#include "trireme/plan/plan.h"

namespace trireme::plan {

// Lines of a queue start and complete in order. A line starts when those it names in `after`, and with them all earlier
// ones of their queues, have completed. One vector clock a line, over queues.
class LaneOrder {
 public:
  LaneOrder() = default;
  explicit LaneOrder(const List& list) {
    for (const Instr& line : list) push(queue_of(line), line.after);
  }

  // Appends a line.
  void push(const Queue& queue, const std::vector<int>& after);
  // The fewest of `lines` that order all of them before a line appended to `queue`; ascending.
  std::vector<int> needed(const Queue& queue, std::vector<int> lines);
  // Whether `earlier` has completed whenever `later` starts.
  bool before(int earlier, int later) const;

 private:
  // Latest line of each queue known to be complete, or -1; queues that come later are missing.
  using Clock = std::vector<int>;
  static int at(const Clock& clock, std::size_t queue) {
    return queue < clock.size() ? clock[queue] : -1;
  }
  static void merge(Clock& into, const Clock& other);
  static void raise(Clock& clock, std::size_t queue, int line);
  std::size_t index(const Queue& queue);
  Clock start_of(std::size_t queue) const;  // without `after`
  void complete(Clock& clock, int line) const;

  std::vector<Queue> queues_;
  std::vector<int> latest_;            // last line of each queue
  std::vector<std::size_t> queue_of_;  // of each line
  std::vector<Clock> starts_;
};

}  // namespace trireme::plan
