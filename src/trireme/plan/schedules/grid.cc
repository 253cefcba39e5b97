#include "trireme/plan/schedules/grid.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/plan/schedules/walk.h"

namespace trireme::schedules {
namespace {

// What a row says by itself: everything once, in order.
class RowCheck {
 public:
  RowCheck(const Grid& grid, int rank)
      : grid_(grid), rank_(rank), counts_(static_cast<std::size_t>(grid.chunks)) {}

  std::optional<GridFault> run() {
    const Row& row = grid_.rows[rank_];
    for (std::size_t place = 0; place < row.size(); ++place)
      if (std::string reason = add(row[place]); !reason.empty())
        return GridFault{rank_, place, std::move(reason)};
    // A schedule without split backwards lacks none.
    const bool whole = std::ranges::none_of(row, [](const Action& action) {
      return action.work == Work::kBackwardInput || action.work == Work::kBackwardWeight;
    });
    for (int chunk = 0; chunk < grid_.chunks; ++chunk) {
      const Counts& done = counts_[chunk];
      for (const auto& [work, count] :
           {std::pair{Work::kForward, done.forward}, std::pair{Work::kBackwardInput, done.input},
            std::pair{Work::kBackwardWeight, done.weight}})
        if (count < grid_.micro_batches)
          return GridFault{
              rank_, row.size(),
              "the row ends without " +
                  named(whole && work != Work::kForward ? Work::kBackward : work, chunk, count)};
    }
    return std::nullopt;
  }

 private:
  // Micro-batches done of a chunk; an unsplit backward counts as both parts.
  struct Counts {
    int forward = 0, input = 0, weight = 0;
  };

  // What is wrong with the action, or nothing.
  std::string add(Action action) {
    if (action.chunk < 0 || action.chunk >= grid_.chunks)
      return fmt::format("the rank has chunks 0 to {}", grid_.chunks - 1);
    if (action.mb < 0 || action.mb >= grid_.micro_batches)
      return fmt::format("there are micro-batches 0 to {}", grid_.micro_batches - 1);
    Counts& done = counts_[action.chunk];
    switch (action.work) {
      case Work::kForward: return step(action, done.forward, grid_.micro_batches, {});
      case Work::kBackwardInput: return step(action, done.input, done.forward, Work::kForward);
      case Work::kBackwardWeight:
        return step(action, done.weight, done.input, Work::kBackwardInput);
      default:
        if (done.weight < done.input && action.mb == done.input)
          return "comes before " + named(Work::kBackwardWeight, action.chunk, done.weight);
        std::string wrong = step(action, done.input, done.forward, Work::kForward);
        if (wrong.empty()) ++done.weight;
        return wrong;
    }
  }

  // Counts one more in `next`, of which `needed` has made `made` possible.
  std::string step(Action action, int& next, int made, std::optional<Work> needed) const {
    if (action.mb < next) return "runs a second time";
    if (action.mb > next) return "comes before " + named(action.work, action.chunk, next);
    if (action.mb >= made) return "comes before " + named(*needed, action.chunk, action.mb);
    ++next;
    return {};
  }

  std::string named(Work work, int chunk, int mb) const {
    return text(grid_, rank_, {.work = work, .chunk = chunk, .mb = mb});
  }

  const Grid& grid_;
  int rank_;
  std::vector<Counts> counts_;
};

}  // namespace

char letter(Work work) { return "FBIW"[static_cast<int>(work)]; }

int rank_of(Placement placement, int ranks, int stage) {
  return placement == Placement::kLoop || stage < ranks ? stage % ranks : 2 * ranks - 1 - stage;
}

int chunk_of(Placement, int ranks, int stage) { return stage / ranks; }

int stage_of(Placement placement, int ranks, int rank, int chunk) {
  if (placement == Placement::kV && chunk == 1) return 2 * ranks - 1 - rank;
  return chunk * ranks + rank;
}

std::string text(const Grid& grid, int rank, Action action) {
  return fmt::format("{}{}{}", stage_of(grid.placement, grid.ranks(), rank, action.chunk),
                     letter(action.work), action.mb);
}

std::optional<GridFault> find_fault(const Grid& grid) {
  for (int rank = 0; rank < grid.ranks(); ++rank)
    if (std::optional<GridFault> fault = RowCheck(grid, rank).run()) return fault;
  Walk walk(grid);
  walk.run([](int, std::size_t, Action, int) {});
  const std::optional<int> stuck = walk.stuck();
  if (!stuck) return std::nullopt;
  const std::size_t place = walk.place(*stuck);
  return GridFault{*stuck, place, "waits forever: " + walk.missing(*stuck)};
}

void check_grid(const Grid& grid) {
  const std::optional<GridFault> fault = find_fault(grid);
  if (!fault) return;
  const Row& row = grid.rows[fault->rank];
  fail(ErrorKind::kInternal, "pipeline rank {}, place {}, {}: {}", fault->rank, fault->place,
       fault->place < row.size() ? text(grid, fault->rank, row[fault->place]) : "end",
       fault->reason);
}

std::vector<double> peak_activations(const Grid& grid, double kept) {
  std::vector<double> peaks;
  for (const Row& row : grid.rows) {
    double peak = 0;
    int whole = 0, rest = 0;  // chunks between F and I, between I and W
    for (const Action& action : row) {
      switch (action.work) {
        case Work::kForward: peak = std::max(peak, ++whole + kept * rest); break;
        case Work::kBackward: --whole; break;
        case Work::kBackwardInput: --whole, ++rest; break;
        case Work::kBackwardWeight: --rest; break;
      }
    }
    peaks.push_back(peak / grid.chunks);
  }
  return peaks;
}

}  // namespace trireme::schedules
