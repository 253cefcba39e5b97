#include "trireme/sim/simulate.h"

#include <algorithm>
#include <array>
#include <deque>

#include "trireme/base/error.h"
#include "trireme/plan/lane_order.h"
#include "trireme/plan/placement.h"

namespace trireme::sim {
namespace {

using mesh::Axis;
using plan::Instr;
using plan::Lane;
using plan::PlanSet;
using plan::Verb;

struct Queued {
  int line = -1;
  double issued = 0;
};

// One list on its walk; ranks that share a list move together.
struct Walker {
  int rank = 0;
  int stage = 0;
  const plan::List* list = nullptr;
  int next = 0;
  double now = 0;
  std::vector<bool> ended;
  std::array<std::deque<Queued>, plan::kLanes> queues{};
  std::array<double, plan::kLanes> free{};  // when the lane's last line ended

  const Instr& line(int index) const { return (*list)[static_cast<std::size_t>(index)]; }
  std::deque<Queued>& queue(Lane lane) { return queues[static_cast<std::size_t>(lane)]; }
  double& free_at(Lane lane) { return free[static_cast<std::size_t>(lane)]; }
};

class Simulation {
 public:
  Simulation(const PlanSet& plan, const LineCost& cost) : plan_(plan), cost_(cost) {
    for (int list = 0; list < static_cast<int>(plan.lists.size()); ++list) {
      const auto rank = std::ranges::find(plan.list_of_rank, list) - plan.list_of_rank.begin();
      walkers_.push_back(
          {.rank = static_cast<int>(rank),
           .stage = plan.mesh.coordinate(static_cast<int>(rank), Axis::kPp),
           .list = &plan.lists[static_cast<std::size_t>(list)],
           .ended = std::vector<bool>(plan.lists[static_cast<std::size_t>(list)].size())});
      result_.lists.push_back(
          {.lines = std::vector<LineTime>(plan.lists[static_cast<std::size_t>(list)].size())});
    }
  }

  Forecast run() && {
    for (bool moved = true; moved;) {
      moved = false;
      for (int w = 0; w < static_cast<int>(walkers_.size()); ++w) {
        while (walk(w)) moved = true;
        for (Lane lane : {Lane::kDp, Lane::kUp, Lane::kDown})
          while (meet(w, lane)) moved = true;
      }
    }
    summarise();
    return std::move(result_);
  }

 private:
  LineTime& time(int walker, int line) {
    return result_.lists[static_cast<std::size_t>(walker)].lines[static_cast<std::size_t>(line)];
  }

  // Takes the next line if all it waits for has ended.
  bool walk(int index) {
    Walker& walker = walkers_[static_cast<std::size_t>(index)];
    if (walker.next == static_cast<int>(walker.list->size())) return false;
    const Instr& line = walker.line(walker.next);
    double ready = walker.now;
    int last = -1;  // of those it waits for
    for (int earlier : line.after) {
      if (!walker.ended[static_cast<std::size_t>(earlier)]) return false;
      if (last < 0 || time(index, earlier).end > time(index, last).end) last = earlier;
    }
    if (last >= 0) ready = std::max(ready, time(index, last).end);
    if (line.lane != Lane::kComp) {
      // grad_norm runs in place: everything after it waits, as its only successors do anyway.
      walker.queue(line.lane).push_back({.line = walker.next++, .issued = ready});
      walker.now = ready;
      return true;
    }
    expose(index, last, ready - walker.now);
    const double seconds = cost_(walker.rank, line);
    end(index, walker.next++, ready, ready + seconds);
    walker.now = ready + seconds;
    result_.lists[static_cast<std::size_t>(index)].comp_busy_s += seconds;
    return true;
  }

  // A wait behind a communication is exposed communication, as far as that was running.
  void expose(int index, int behind, double waited) {
    if (behind < 0 || waited <= 0) return;
    if (walkers_[static_cast<std::size_t>(index)].line(behind).lane != Lane::kDp) return;
    const LineTime& blocking = time(index, behind);
    result_.lists[static_cast<std::size_t>(index)].exposed_comm_s +=
        std::min(waited, blocking.end - blocking.start);
  }

  void end(int index, int line, double start, double finish) {
    Walker& walker = walkers_[static_cast<std::size_t>(index)];
    time(index, line) = {.start = start, .end = finish};
    walker.ended[static_cast<std::size_t>(line)] = true;
    walker.free_at(walker.line(line).lane) = finish;
    result_.lists[static_cast<std::size_t>(index)].sent_bytes +=
        sent_bytes(plan_, walker.line(line));
  }

  // Runs the line at the head of a lane if all who take part have come to it.
  bool meet(int index, Lane lane) {
    if (walkers_[static_cast<std::size_t>(index)].queue(lane).empty()) return false;
    const Walker& mine = walkers_[static_cast<std::size_t>(index)];
    const Instr& line = mine.line(mine.queues[static_cast<std::size_t>(lane)].front().line);
    const std::vector<int> all = participants(mine, line);
    double start = 0;
    double seconds = 0;
    for (int other : all) {
      Walker& walker = walkers_[static_cast<std::size_t>(other)];
      if (walker.queue(lane).empty()) return false;
      const Queued& head = walker.queue(lane).front();
      if (other != index && !meets(line, walker.line(head.line))) return false;
      start = std::max({start, head.issued, walker.free_at(lane)});
      seconds = std::max(seconds, cost_(walker.rank, walker.line(head.line)));
    }
    for (int other : all) {
      Walker& walker = walkers_[static_cast<std::size_t>(other)];
      end(other, walker.queue(lane).front().line, start, start + seconds);
      walker.queue(lane).pop_front();
    }
    return true;
  }

  static bool meets(const Instr& line, const Instr& theirs) {
    if (line.verb == Verb::kSend || line.verb == Verb::kRecv)
      return (theirs.verb == Verb::kSend || theirs.verb == Verb::kRecv) &&
             theirs.verb != line.verb && theirs.value == line.value && theirs.mb == line.mb;
    return line.verb == theirs.verb && line.unit == theirs.unit && line.mb == theirs.mb;
  }

  std::vector<int> participants(const Walker& walker, const Instr& line) const {
    std::vector<int> all;
    if (line.verb == Verb::kSend || line.verb == Verb::kRecv) {
      all = {list_of(walker.rank), list_of(plan_.mesh.peer(walker.rank, Axis::kPp, line.peer))};
    } else if (line.verb == Verb::kGradNorm) {
      for (int w = 0; w < static_cast<int>(walkers_.size()); ++w) all.push_back(w);
    } else {
      const std::vector<int> stages = plan::stages_of_unit(plan_.program, line.unit);
      for (int rank : plan_.mesh.group(walker.rank, line.axes))
        if (std::ranges::binary_search(stages, plan_.mesh.coordinate(rank, Axis::kPp)))
          all.push_back(list_of(rank));
    }
    std::ranges::sort(all);
    all.erase(std::ranges::unique(all).begin(), all.end());
    return all;
  }

  int list_of(int rank) const { return plan_.list_of_rank[static_cast<std::size_t>(rank)]; }

  void summarise() {
    double busy = 0;
    double ranks = 0;
    for (std::size_t w = 0; w < walkers_.size(); ++w) {
      for (std::size_t i = 0; i < walkers_[w].ended.size(); ++i) {
        TRIREME_CHECK(walkers_[w].ended[i], "list {} line {} never ends: validate the plan first",
                      w, i);
        result_.step_s = std::max(result_.step_s, result_.lists[w].lines[i].end);
      }
      const auto sharing =
          static_cast<double>(std::ranges::count(plan_.list_of_rank, static_cast<int>(w)));
      busy += sharing * result_.lists[w].comp_busy_s;
      ranks += sharing;
    }
    if (result_.step_s > 0) result_.bubble_fraction = 1 - busy / (ranks * result_.step_s);
  }

  const PlanSet& plan_;
  const LineCost& cost_;
  std::vector<Walker> walkers_;
  Forecast result_;
};

}  // namespace

Forecast simulate(const PlanSet& plan, const LineCost& cost) {
  return Simulation(plan, cost).run();
}

Forecast simulate(const PlanSet& plan, const CostModel& model) {
  return simulate(plan,
                  [&](int rank, const Instr& line) { return seconds(model, plan, rank, line); });
}

}  // namespace trireme::sim
