// Expected shares: expected number of rows of a node, as a share of the maximum.
#pragma once

#include <algorithm>
#include <functional>
#include <string_view>

#include "trireme/config/job.h"

namespace trireme::planner {

// What a family expects of the rows of its nodes.
struct Shares {
  std::function<double(std::string_view node)> of;  // null: 1
  bool varies = false;                              // any node has fewer rows than the most
  bool counted = false;  // operations that the program counts are of the expected rows already
  double fullest = 1.2;  // rows of a run's fullest micro-batch, as a multiple of the expected ones
};

// For rows that vary, memory is counted for the maximum and time for the expected number. Shares belong to a node of a
// resolved job and are 1 where nothing varies.
class ExpectedShare {
 public:
  explicit ExpectedShare(const config::Job& job);
  double of(std::string_view node) const;
  // Whether any node has fewer rows than the most.
  bool varies() const { return shares_.varies; }
  // Share of the node in the fullest micro-batch of a run (docs/results/forecasts.md).
  double fullest(std::string_view node) const { return std::min(shares_.fullest * of(node), 1.0); }
  // Operations of the node that arch counts are of the expected rows already.
  bool counted() const { return shares_.counted; }

 private:
  Shares shares_;
};

}  // namespace trireme::planner
