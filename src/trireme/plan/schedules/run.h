// One run of a pipeline whose ranks decide by themselves what to compute next, on the shape's clock.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "trireme/plan/schedules/grid.h"

namespace trireme::schedules {

// Rules by which a rank decides. It prefers I to F and F to W, but alternates between I and F. It waits for the better
// work if that arrives within a share of the worse one's duration.
struct Policy {
  double limit =
      0;  // activations of a rank at once, in chunks; between I and W a chunk counts `kept`
  double kept = 1;
  double wait_at_first = 0;   // before F instead of the first I
  double wait_for_input = 0;  // before F instead of a later I
  double wait_at_weight = 0;  // before W
  // Forwards and input gradients of each rank in order, so that only W remains to decide. Null: one chunk a rank, in
  // the order of micro-batches. A rank that would be idle takes an action up to `ahead` places after the next one in
  // its order, if it can start and the limit leaves memory for those between.
  const std::vector<Row>* order = nullptr;
  std::size_t ahead = 0;
};

struct RunResult {
  Grid grid{};
  double cost = 0;  // of the longest rank or, with a barrier, the makespan
};

// Nothing when the order cannot be kept within the limit, or as soon as `bound` cannot be beaten.
std::optional<RunResult> run_policy(const ScheduleShape& shape, Placement placement,
                                    const Policy& policy,
                                    double bound = std::numeric_limits<double>::infinity());

}  // namespace trireme::schedules
