#include <fmt/format.h>

#include <algorithm>

#include "trireme/plan/actions.h"
#include "trireme/plan/schedules/walk.h"

namespace trireme::plan {
namespace {

using mesh::Axis;
using schedules::Grid;
using schedules::Work;

constexpr int kAround = 10;  // actions shown on each side of a mark

bool reads(const Program& program, const Instr& line, ValueId value) {
  return std::ranges::find(program.nodes[line.node].reads, value) !=
         program.nodes[line.node].reads.end();
}

bool writes(const Program& program, const Instr& line, ValueId value) {
  return std::ranges::find(program.nodes[line.node].writes, value) !=
         program.nodes[line.node].writes.end();
}

// The line that makes what a transfer carries, or uses it first; others stand for themselves.
int computing_line(const Program& program, const List& list, int index) {
  const Instr& line = list[index];
  if (!is_transfer(line)) return index;
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    const Instr& one = list[i];
    if (!computes(one)) continue;
    const bool joint = program.nodes[one.node].joint;
    if (!joint && one.mb != line.mb) continue;
    const bool forward = one.verb == Verb::kForward;
    if (forward == line.gradient || (!forward && !gives_gradients(one))) continue;
    const bool maker = line.verb == Verb::kSend;
    if (maker != line.gradient ? writes(program, one, line.value) : reads(program, one, line.value))
      return i;
  }
  return index;
}

// The action that has the line, or the next one.
std::size_t place_of(const std::vector<ActionLines>& all, int line) {
  const auto found =
      std::ranges::find_if(all, [&](const ActionLines& one) { return line <= one.last; });
  return found == all.end() ? all.size() - 1 : static_cast<std::size_t>(found - all.begin());
}

std::string marked_row(const PlanSet& plan, const Grid& grid, const Mark& mark) {
  const List& list = plan.list(mark.rank);
  const std::vector<ActionLines> all = actions(plan.program, list);
  if (all.empty()) return "";
  const std::size_t marked = place_of(all, computing_line(plan.program, list, mark.line));
  const std::size_t begin = marked > kAround ? marked - kAround : 0;
  const std::size_t end = std::min(all.size(), marked + kAround + 1);
  std::string row = fmt::format("\n  rank {}:{}", mark.rank, begin > 0 ? " .." : "");
  for (std::size_t i = begin; i < end; ++i) {
    const std::string text =
        action_text(grid, plan.mesh.coordinate(mark.rank, Axis::kPp), all[i].action);
    row += fmt::format(fmt::runtime(i == marked ? " >{}<" : " {}"), text);
  }
  if (end < all.size()) row += " ..";
  return row;
}

using Cells = std::vector<std::vector<std::string>>;
constexpr const char* kIdle = "..";
constexpr const char* kGoesOn = "--";

Cells in_order(const Grid& grid) {
  Cells cells;
  std::size_t longest = 0;
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    std::vector<std::string>& row = cells.emplace_back();
    for (const schedules::Action& action : grid.rows[rank])
      row.push_back(action_text(grid, rank, action));
    longest = std::max(longest, row.size());
  }
  for (auto& row : cells) row.resize(longest, kIdle);
  return cells;
}

Cells by_unit_time(const Grid& grid) {
  const schedules::GridTimes times = schedules::time_grid(
      grid, {.ranks = grid.ranks(), .chunks = grid.chunks, .micro_batches = grid.micro_batches});
  Cells cells(grid.rows.size(),
              std::vector<std::string>(static_cast<std::size_t>(times.makespan), kIdle));
  for (std::size_t rank = 0; rank < grid.rows.size(); ++rank)
    for (std::size_t i = 0; i < grid.rows[rank].size(); ++i) {
      const schedules::Action& action = grid.rows[rank][i];
      const auto start = static_cast<std::size_t>(times.at[rank][i].first);
      cells[rank][start] = action_text(grid, static_cast<int>(rank), action);
      if (action.work == Work::kBackward) cells[rank][start + 1] = kGoesOn;
    }
  return cells;
}

// If a stage without a backward follows one that has some, no times follow from the grid.
bool has_times(const Grid& grid) {
  schedules::Walk walk(grid);
  walk.run([](int, std::size_t, schedules::Action, int) {});
  return !walk.stuck();
}

}  // namespace

std::string marked_rows(const PlanSet& plan, const std::vector<Mark>& marks) {
  if (plan.mesh.degree(Axis::kPp) == 1) return "";
  const Grid grid = grid_of(plan);
  std::string text;
  for (const Mark& mark : marks) text += marked_row(plan, grid, mark);
  return text;
}

std::vector<int> shown_stages(int stages, int rows) {
  std::vector<int> shown;
  if (stages <= rows) {
    for (int stage = 0; stage < stages; ++stage) shown.push_back(stage);
    return shown;
  }
  for (int stage = 0; stage < rows / 2; ++stage) shown.push_back(stage);
  shown.push_back(-1);
  for (int stage = stages - (rows - 1 - rows / 2); stage < stages; ++stage) shown.push_back(stage);
  return shown;
}

std::string schedule_text(const PlanSet& plan, int rows, int columns) {
  const Grid grid = grid_of(plan);
  const Cells all = has_times(grid) ? by_unit_time(grid) : in_order(grid);
  std::size_t cell = 2;
  for (const auto& row : all)
    for (const std::string& text : row) cell = std::max(cell, text.size());
  constexpr std::string_view kGap = " ...";
  constexpr int kLabel = 11;
  const auto room = static_cast<std::size_t>(columns) - kLabel;
  const std::size_t count = all.front().size();
  std::size_t left = count, right = 0;
  if (count * (cell + 1) > room) {
    const std::size_t fit = (room - kGap.size()) / (cell + 1);
    left = fit - fit / 2;
    right = fit / 2;
  }
  std::string text;
  for (int stage : shown_stages(grid.ranks(), rows)) {
    if (stage < 0) {
      text += fmt::format("  and {} between\n", grid.ranks() - rows + 1);
      continue;
    }
    const auto& row = all[stage];
    std::string line = fmt::format("  {:<9}", fmt::format("stage {}", stage));
    for (std::size_t i = 0; i < count; ++i) {
      if (i == left && right > 0) line += kGap;
      if (i < left || i >= count - right) line += fmt::format(" {:<{}}", row[i], cell);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace trireme::plan
