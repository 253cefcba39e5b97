#include "trireme/plan/schedules/search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "trireme/base/error.h"
#include "trireme/plan/schedules/fixed.h"
#include "trireme/plan/schedules/run.h"
#include "trireme/plan/schedules/v_order.h"

namespace trireme::plan::schedules {
namespace {

class Search {
 public:
  Search(const ScheduleShape& shape, Placement placement, double limit, double kept)
      : shape_(shape), placement_(placement), policy_{.limit = limit, .kept = kept} {}

  Policy& policy() { return policy_; }

  void try_policy() {
    std::optional<RunResult> result = run_policy(shape_, placement_, policy_, best_.cost);
    if (result && result->cost < best_.cost) best_ = std::move(*result);
  }

  // With weight gradients where the rows have them.
  void try_rows(std::vector<Row> rows) {
    Grid grid{.placement = placement_,
              .chunks = shape_.chunks,
              .micro_batches = shape_.micro_batches,
              .rows = std::move(rows)};
    for (const double peak : peak_activations(grid, policy_.kept))
      if (peak * shape_.chunks > policy_.limit + 1e-9) return;
    const GridTimes times = time_grid(grid, shape_);
    const double longest = shape_.barrier ? times.makespan : times.longest_rank;
    if (longest < best_.cost) best_ = {std::move(grid), longest};
  }

  // With weight gradients filled in.
  void try_order(const std::vector<Row>& order, double wait) {
    policy_.order = &order;
    policy_.wait_at_weight = wait;
    try_policy();
    policy_.order = nullptr;
  }

  Grid best() {
    TRIREME_CHECK(!best_.grid.rows.empty(), "no order of {} ranks keeps within {} chunks",
                  shape_.ranks, policy_.limit);
    return std::move(best_.grid);
  }

 private:
  const ScheduleShape& shape_;
  Placement placement_;
  Policy policy_;
  RunResult best_{.cost = std::numeric_limits<double>::infinity()};
};

struct Candidate {
  double cost = 0;
  BuildingBlock block{};
  double wait = 0;
};

// Blocks and waits by what they take over a few micro-batches; of those that take the same, one.
std::vector<Candidate> ranked_blocks(ScheduleShape shape, Policy policy) {
  shape.micro_batches = std::min(shape.micro_batches, 3 * shape.ranks);
  std::vector<Candidate> candidates;
  for (const BuildingBlock& block : building_blocks(shape.ranks)) {
    const std::vector<Row> order = repeated(block, shape.ranks, shape.micro_batches);
    policy.order = &order;
    for (const double wait : {0.5, 0.0, 1.0}) {
      policy.wait_at_weight = wait;
      const std::optional<RunResult> result = run_policy(shape, Placement::kV, policy);
      // Blocks may differ in ticks and yet give the same order.
      if (!result || std::ranges::count(candidates, result->cost, &Candidate::cost)) break;
      candidates.push_back({result->cost, block, wait});
    }
  }
  std::ranges::stable_sort(candidates, {}, &Candidate::cost);
  return candidates;
}

// 1F1B holds 2 `ranks` chunks. Building blocks whose steps add up to four or six ticks need four or six
// sixths of `ranks` and some room at the turns, which depends on the rest by the period.
Grid search_blocks(const ScheduleShape& shape, int limit) {
  constexpr std::size_t kTried = 8;
  Search search(shape, Placement::kV, limit, 1);
  std::vector<Candidate> candidates = ranked_blocks(shape, search.policy());
  candidates.resize(std::min(candidates.size(), kTried));
  for (const Candidate& candidate : candidates)
    search.try_order(repeated(candidate.block, shape.ranks, shape.micro_batches), candidate.wait);
  return search.best();
}

}  // namespace

Grid search_zero_bubble(const ScheduleShape& shape) {
  const double limit = shape.activation_limit * shape.ranks;
  if (limit + 1e-9 < 1)
    fail(ErrorKind::kUsage,
         "zb_auto with {} of 1F1B's activations on {} pipeline ranks may not hold one micro-batch: "
         "take at least {:.3g}",
         shape.activation_limit, shape.ranks, 1.0 / shape.ranks);
  Search search(shape, Placement::kLoop, limit, shape.kept);
  for (const auto make_row : {zb_h1_row, zb_h2_row}) {
    std::vector<Row> rows;
    rows.reserve(static_cast<std::size_t>(shape.ranks));
    for (int rank = 0; rank < shape.ranks; ++rank)
      rows.push_back(make_row(shape.ranks, shape.micro_batches, rank));
    search.try_rows(std::move(rows));
  }
  for (const double first : {0.25, 0.5, 0.75, 0.9, 1.0, 0.0})
    for (const double input : {0.0, 0.25, 0.5, 1.0})
      for (const double weight : {0.0, 0.25, 0.5}) {
        search.policy().wait_at_first = first;
        search.policy().wait_for_input = input;
        search.policy().wait_at_weight = weight;
        search.try_policy();
      }
  return search.best();
}

Grid search_zb_v(const ScheduleShape& shape) {
  Search search(shape, Placement::kV, 2 * shape.ranks, 1);
  const std::vector<Row> order = zb_v_order(shape.ranks, shape.micro_batches);
  for (const double wait : {0.75, 0.0, 0.25, 0.5, 1.0, 1.5}) search.try_order(order, wait);
  return search.best();
}

Grid search_v_half(const ScheduleShape& shape) {
  const int p = shape.ranks;
  return search_blocks(shape, p <= 2 ? p + 1 : p / 2 * 2 + 2);
}

Grid search_v_min(const ScheduleShape& shape) {
  const int p = shape.ranks;
  constexpr int kRoom[] = {6, 4, 8};
  return search_blocks(shape, p <= 2 ? p + 1 : (2 * p + kRoom[p % 3]) / 3);
}

}  // namespace trireme::plan::schedules
