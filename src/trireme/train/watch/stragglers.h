// Stragglers: ranks that compute for longer than those who do the same. Pure: equal numbers in, equal verdicts out.
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
  double others = 0;     // of those who do the same, or its own before where nobody does
  bool alone = false;    // nobody does the same
};

// "rank 1 takes 45.0 ms a step for forward, others with its work 15.0 ms"
std::string describe(const Straggler& straggler);

class Stragglers {
 public:
  // `work`: by rank; ranks of equal entries do the same (plan::PlanSet::list_of_rank).
  explicit Stragglers(std::vector<int> work) : work_(std::move(work)), ranks_(work_.size()) {}

  // A step's times, by rank. Returns who has become one: more than 30 % and 5 ms longer than the middle of the others
  // with its work, or than in its first steps where there are none, in 16 steps of 18. It is told again only
  // after 18 steps in which it was none.
  std::vector<Straggler> add(const std::vector<exec::Busy>& busy);

 private:
  struct Series {
    std::deque<bool> late;      // in the last steps
    std::vector<double> first;  // seconds of the first steps
    bool told = false;
  };
  double usual(std::size_t rank, std::size_t kind, const std::vector<exec::Busy>& busy) const;

  std::vector<int> work_;
  std::vector<std::array<Series, exec::kBusyKinds>> ranks_;
  std::deque<std::vector<exec::Busy>> last_;
  std::int64_t steps_ = 0;
};

}  // namespace trireme::train
