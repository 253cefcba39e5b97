#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "trireme/plan/schedules/csv.h"
#include "trireme/plan/schedules/walk.h"

namespace trireme::schedules {
namespace {

std::string joined(const std::vector<std::vector<std::string>>& rows) {
  std::string csv;
  for (const std::vector<std::string>& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) csv += (i == 0 ? "" : ",") + row[i];
    csv += '\n';
  }
  return csv;
}

// An action with what its stage needs around it on the same rank.
struct Step {
  std::vector<std::string> before{};
  Action action{};
  std::vector<std::string> after{};
};

class Lowering {
 public:
  Lowering(const Grid& grid, int active_stages) : grid_(grid), active_stages_(active_stages) {
    for (int rank = 0; rank < grid.ranks(); ++rank) steps_.push_back(steps(rank));
  }

  // Ranks advance in turn, one action each, so that receives enter a row about when their sends do.
  std::vector<std::vector<std::string>> run() {
    std::vector<std::vector<std::string>> rows(steps_.size());
    std::vector<std::size_t> place(steps_.size());
    for (bool any = true; any;) {
      any = false;
      for (int rank = 0; rank < grid_.ranks(); ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        if (place[r] == steps_[r].size() || !ready(steps_[r][place[r]].action, rank)) continue;
        const Step& step = steps_[r][place[r]++];
        any = true;
        rows[r].insert(rows[r].end(), step.before.begin(), step.before.end());
        rows[r].push_back(text(grid_, rank, step.action));
        transfer(step.action, rank, rows);
        rows[r].insert(rows[r].end(), step.after.begin(), step.after.end());
      }
    }
    return rows;
  }

 private:
  int stage(int rank, int chunk) const {
    return stage_of(grid_.placement, grid_.ranks(), rank, chunk);
  }

  // The next stages from `place` on, in order of use.
  std::vector<int> upcoming(const Row& row, std::size_t place, int rank) const {
    std::vector<int> stages;
    for (; place < row.size() && static_cast<int>(stages.size()) < active_stages_; ++place) {
      const int one = stage(rank, row[place].chunk);
      if (std::ranges::find(stages, one) == stages.end()) stages.push_back(one);
      if (static_cast<int>(stages.size()) == grid_.chunks) break;
    }
    return stages;
  }

  std::vector<Step> steps(int rank) const {
    const Row& row = grid_.rows[rank];
    std::vector<int> backwards(static_cast<std::size_t>(grid_.chunks));
    std::vector<int> active;
    std::vector<Step> steps;
    for (std::size_t place = 0; place < row.size(); ++place) {
      Step& step = steps.emplace_back();
      step.action = row[place];
      const std::vector<int> next = upcoming(row, place, rank);
      std::erase_if(active, [&](int one) {
        const bool idle = std::ranges::find(next, one) == next.end();
        if (idle) step.before.push_back(fmt::format("{}RESHARD", one));
        return idle;
      });
      for (const int one : next) {
        if (std::ranges::find(active, one) != active.end()) continue;
        step.before.push_back(fmt::format("{}UNSHARD", one));
        active.push_back(one);
      }
      const Work work = step.action.work;
      if ((work == Work::kBackward || work == Work::kBackwardWeight) &&
          ++backwards[step.action.chunk] == grid_.micro_batches)
        step.after.push_back(fmt::format("{}REDUCE_GRAD", stage(rank, step.action.chunk)));
    }
    for (const int one : active) steps.back().after.push_back(fmt::format("{}RESHARD", one));
    return steps;
  }

  bool ready(Action action, int rank) const {
    const int own = stage(rank, action.chunk);
    if (action.work == Work::kForward) return own == 0 || forwards_.contains({own - 1, action.mb});
    if (action.work == Work::kBackwardWeight) return true;
    return own == grid_.ranks() * grid_.chunks - 1 || inputs_.contains({own + 1, action.mb});
  }

  void transfer(Action action, int rank, std::vector<std::vector<std::string>>& rows) {
    if (action.work == Work::kBackwardWeight) return;
    const bool forward = action.work == Work::kForward;
    const int from = stage(rank, action.chunk);
    const int to = forward ? from + 1 : from - 1;
    (forward ? forwards_ : inputs_).insert({from, action.mb});
    if (to < 0 || to == grid_.ranks() * grid_.chunks) return;
    const int peer = rank_of(grid_.placement, grid_.ranks(), to);
    if (peer == rank) return;
    const char kind = forward ? 'F' : 'B';
    rows[rank].push_back(fmt::format("{}SEND_{}{}", from, kind, action.mb));
    rows[peer].push_back(fmt::format("{}RECV_{}{}", to, kind, action.mb));
  }

  const Grid& grid_;
  int active_stages_;
  std::vector<std::vector<Step>> steps_;
  std::set<std::pair<int, int>> forwards_, inputs_;  // stage and micro-batch, done
};

}  // namespace

std::string compute_csv(const Grid& grid) {
  const int stages = grid.ranks() * grid.chunks;
  const auto count = static_cast<std::size_t>(grid.micro_batches);
  std::vector<std::vector<std::string>> rows(grid.rows.size());
  std::vector<std::size_t> forward_end(static_cast<std::size_t>(stages) * count);
  std::vector<std::size_t> input_end(forward_end.size());
  Walk(grid).run([&](int rank, std::size_t, Action action, int stage) {
    std::vector<std::string>& row = rows[rank];
    const auto at = [&](std::vector<std::size_t>& end, int one) -> std::size_t& {
      return end[static_cast<std::size_t>(one) * count + static_cast<std::size_t>(action.mb)];
    };
    const bool forward = action.work == Work::kForward;
    const bool weight = action.work == Work::kBackwardWeight;
    std::size_t start = row.size();
    if (forward && stage > 0) start = std::max(start, at(forward_end, stage - 1));
    if (!forward && !weight && stage < stages - 1)
      start = std::max(start, at(input_end, stage + 1));
    row.resize(start);
    row.push_back(text(grid, rank, action));
    if (!weight) at(forward ? forward_end : input_end, stage) = row.size();
  });
  return joined(rows);
}

std::string lowered_csv(const Grid& grid, int active_stages) {
  return joined(Lowering(grid, active_stages).run());
}

}  // namespace trireme::schedules
