#include "trireme/plan/schedules/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/plan/schedules/fixed.h"
#include "trireme/plan/schedules/run.h"
#include "trireme/plan/schedules/v_order.h"

namespace trireme::schedules {
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
  void try_order(const std::vector<Row>& order, double wait, std::size_t ahead = 0) {
    policy_.order = &order;
    policy_.wait_at_weight = wait;
    policy_.ahead = ahead;
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
  Ends ends{};
};

// How far a rank may look ahead in its order: over what enters the pipeline before its first gradient.
std::size_t lookahead(int ranks) { return 8 * static_cast<std::size_t>(ranks); }

// Blocks and ends in the order of what they take over a few micro-batches.
std::vector<Candidate> ranked_blocks(ScheduleShape shape, Policy policy, int limit) {
  shape.micro_batches = std::min(shape.micro_batches, 2 * shape.ranks);
  policy.ahead = lookahead(shape.ranks);
  policy.wait_at_weight = 0.5;
  std::vector<Candidate> candidates;
  std::set<std::vector<Row>> seen;
  // Many blocks do as well: of more than these every n-th is tried.
  constexpr std::size_t kBlocks = 96;
  const std::vector<BuildingBlock> blocks = building_blocks(shape.ranks, limit);
  const std::size_t step = (blocks.size() + kBlocks - 1) / kBlocks;
  for (std::size_t i = 0; i < blocks.size(); i += step)
    for (const auto& [fill, drain] :
         {std::pair{true, true}, {false, true}, {true, false}, {false, false}}) {
      const Ends ends{.fill = fill, .drain = drain, .limit = limit};
      std::vector<Row> order = repeated(blocks[i], shape.ranks, shape.micro_batches, ends);
      if (order.empty() || !seen.insert(order).second) continue;
      policy.order = &order;
      if (const auto result = run_policy(shape, Placement::kV, policy))
        candidates.push_back({result->cost, blocks[i], ends});
    }
  std::ranges::stable_sort(candidates, {}, &Candidate::cost);
  return candidates;
}

// Orders of a V that hold `limit` chunks of activations; 1F1B holds 2 `ranks`.
void try_v(const ScheduleShape& shape, int limit, Search& search) {
  constexpr std::size_t kTried = 8;
  search.policy().limit = limit;
  if (limit >= 2 * shape.ranks) {
    const std::vector<Row> order = zb_v_order(shape.ranks, shape.micro_batches);
    for (const double wait : {0.75, 0.0, 0.25, 0.5, 1.0, 1.5}) search.try_order(order, wait);
  }
  std::vector<Candidate> candidates =
      ranked_blocks(shape, search.policy(), std::min(limit, 2 * shape.ranks));
  candidates.resize(std::min(candidates.size(), kTried));
  for (const Candidate& candidate : candidates) {
    const std::vector<Row> order =
        repeated(candidate.block, shape.ranks, shape.micro_batches, candidate.ends);
    for (const double wait : {0.5, 0.0, 1.0})
      for (const std::size_t ahead : {lookahead(shape.ranks), std::size_t{0}})
        search.try_order(order, wait, ahead);
  }
}

Grid search_v(const ScheduleShape& shape, int limit) {
  Search search(shape, Placement::kV, limit, 1);
  try_v(shape, limit, search);
  return search.best();
}

// Half and a third of 1F1B's activations, and some more at the turns of the V.
int half_limit(int p) { return p <= 2 ? p + 1 : p / 2 * 2 + 2; }
int least_limit(int p) {
  constexpr int kRoom[] = {6, 4, 8};
  return p <= 2 ? p + 1 : (2 * p + kRoom[p % 3]) / 3;
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

Grid search_v_half(const ScheduleShape& shape) { return search_v(shape, half_limit(shape.ranks)); }

Grid search_v_min(const ScheduleShape& shape) { return search_v(shape, least_limit(shape.ranks)); }

Grid search_v_auto(const ScheduleShape& shape) {
  const double limit = shape.activation_limit * 2 * shape.ranks;
  if (limit + 1e-9 < 2)
    fail(ErrorKind::kUsage,
         "v_auto with {} of 1F1B's activations on {} pipeline ranks may not hold one micro-batch: "
         "take at least {:.3g}",
         shape.activation_limit, shape.ranks, 1.0 / shape.ranks);
  const double all = 2.0 * shape.micro_batches;
  const int most = static_cast<int>(std::min(limit + 1e-9, all));
  Search search(shape, Placement::kV, most, 1);
  // Orders within a smaller limit are allowed too, and may be shorter if costs differ.
  for (const int less : {least_limit(shape.ranks), half_limit(shape.ranks), 2 * shape.ranks})
    if (less < most) try_v(shape, less, search);
  try_v(shape, most, search);
  return search.best();
}

}  // namespace trireme::schedules
