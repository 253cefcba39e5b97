// Stragglers: ranks that compute for longer than those with the same work. Pure: equal inputs give equal verdicts.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/exec/busy.h"

namespace trireme::train {

struct Straggler {
  int rank = 0;
  std::string_view kind;  // of exec::kBusyNames, or "all work"
  double seconds = 0;     // a step, typical of the last ones
  double others = 0;   // seconds of ranks with the same work, or its own before if there are none
  bool alone = false;  // no other rank does the same
};

// "rank 1 takes 45.0 ms a step for forward, others with its work 15.0 ms"
std::string describe(const Straggler& straggler);

class Stragglers {
 public:
  // `work`: by rank; ranks of equal entries do the same (plan::PlanSet::list_of_rank).
  explicit Stragglers(std::vector<int> work) : work_(std::move(work)), ranks_(work_.size()) {}

  // A step's times, by rank. Returns new stragglers, one kind a rank. The others are the median of the ranks with its
  // work, or its own first steps if there are none. A straggler takes 30 % and 5 ms longer than they do for one kind
  // of work in 16 steps of 18. Or, for all its work, in six of 18, and 25 % longer in the mean, in which no step
  // counts more than twofold: a limit of processor time (CFS quota) halts a rank in some steps only. It is reported
  // again only after 18 normal steps.
  std::vector<Straggler> add(const std::vector<exec::Busy>& busy);

  static constexpr std::size_t kKinds = exec::kBusyKinds + 1;  // the last: the sum of all
  using Times = std::array<double, kKinds>;                    // seconds of a step

 private:
  struct Series {
    std::deque<double> ratios;  // to the usual time, in the last steps
    std::vector<double> first;  // seconds of the first steps
    void add(double seconds, double usual);
    std::size_t late_steps() const;
    double mean() const;
  };
  struct Rank {
    std::array<Series, kKinds> series;
    std::optional<std::size_t> reported;  // kind
  };
  static bool is_slow(const Series& series, std::size_t kind);
  double usual(std::size_t rank, std::size_t kind, const std::vector<Times>& times) const;
  std::size_t cause(std::size_t rank) const;
  Straggler straggler(std::size_t rank, std::size_t kind) const;

  std::vector<int> work_;
  std::vector<Rank> ranks_;
  std::deque<std::vector<Times>> last_;
  std::int64_t steps_ = 0;
};

}  // namespace trireme::train
