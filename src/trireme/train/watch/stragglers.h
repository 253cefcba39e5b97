// Stragglers: ranks that compute for longer than those with the same work. Pure: equal inputs give equal verdicts.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "trireme/exec/busy.h"

namespace trireme::train {

struct Straggler {
  int rank = 0;
  std::size_t kind = 0;  // of exec::Busy
  double seconds = 0;    // a step, in the middle of the last ones
  double others = 0;     // seconds of ranks with the same work, or its own before if there are none
  bool alone = false;    // no other rank does the same
};

// "rank 1 takes 45.0 ms a step for forward, others with its work 15.0 ms"
std::string describe(const Straggler& straggler);

class Stragglers {
 public:
  // `work`: by rank; ranks of equal entries do the same (plan::PlanSet::list_of_rank).
  explicit Stragglers(std::vector<int> work) : work_(std::move(work)), ranks_(work_.size()) {}

  // A step's times, by rank. Returns new stragglers. A straggler takes 30 % and 5 ms longer than the median of the
  // others with its work, or than in its first steps if there are none, in 16 steps of 18. It is reported again only
  // after 18 normal steps.
  std::vector<Straggler> add(const std::vector<exec::Busy>& busy);

 private:
  struct Series {
    std::deque<bool> late;      // in the last steps
    std::vector<double> first;  // seconds of the first steps
    bool reported = false;
  };
  double usual(std::size_t rank, std::size_t kind, const std::vector<exec::Busy>& busy) const;

  std::vector<int> work_;
  std::vector<std::array<Series, exec::kBusyKinds>> ranks_;
  std::deque<std::vector<exec::Busy>> last_;
  std::int64_t steps_ = 0;
};

}  // namespace trireme::train
