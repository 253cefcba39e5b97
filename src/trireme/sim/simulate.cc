#include "trireme/sim/simulate.h"

#include <algorithm>
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

struct Waiting {
  plan::Queue queue;
  std::deque<Queued> lines{};
  double free = 0;  // when its last line ended
};

// One list on its walk; ranks that share a list move together.
struct Walker {
  int rank = 0;
  int stage = 0;
  const plan::List* list = nullptr;
  int next = 0;
  double now = 0;
  std::vector<bool> ended;
  std::vector<Waiting> waiting{};

  const Instr& line(int index) const { return (*list)[static_cast<std::size_t>(index)]; }
  Waiting& at(const plan::Queue& queue) {
    for (Waiting& one : waiting)
      if (one.queue == queue) return one;
    return waiting.emplace_back(Waiting{.queue = queue});
  }
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
    std::vector<int> awake;
    for (int w = static_cast<int>(walkers_.size()); w-- > 0;) awake.push_back(w);
    while (!awake.empty()) {
      const int walker = awake.back();
      awake.pop_back();
      // Behind what has just ended, the next of a queue may have been waited for.
      for (std::size_t i = 0; i < walkers_[static_cast<std::size_t>(walker)].waiting.size(); ++i)
        while (meet(walker, walkers_[static_cast<std::size_t>(walker)].waiting[i].queue, awake))
          continue;
      while (walk(walker, awake)) continue;
    }
    summarise();
    return std::move(result_);
  }

 private:
  LineTime& time(int walker, int line) {
    return result_.lists[static_cast<std::size_t>(walker)].lines[static_cast<std::size_t>(line)];
  }

  // Takes the next line if all it waits for has ended; wakes those whose lines end with it.
  bool walk(int index, std::vector<int>& awake) {
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
      const plan::Queue queue = plan::queue_of(line);
      walker.at(queue).lines.push_back({.line = walker.next++, .issued = ready});
      walker.now = ready;
      while (meet(index, queue, awake)) continue;
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
    if (walkers_[static_cast<std::size_t>(index)].line(behind).lane == Lane::kComp) return;
    const LineTime& blocking = time(index, behind);
    result_.lists[static_cast<std::size_t>(index)].exposed_comm_s +=
        std::min(waited, blocking.end - blocking.start);
  }

  void end(int index, int line, double start, double finish) {
    Walker& walker = walkers_[static_cast<std::size_t>(index)];
    time(index, line) = {.start = start, .end = finish};
    walker.ended[static_cast<std::size_t>(line)] = true;
    result_.lists[static_cast<std::size_t>(index)].sent_bytes +=
        sent_bytes(plan_, walker.line(line));
  }

  // Runs the line at the head of a queue if all who take part have come to it.
  bool meet(int index, const plan::Queue& queue, std::vector<int>& awake) {
    Walker& mine = walkers_[static_cast<std::size_t>(index)];
    if (mine.at(queue).lines.empty()) return false;
    const Instr& line = mine.line(mine.at(queue).lines.front().line);
    const std::vector<int> all = participants(mine, line);
    std::vector<Waiting*> sides;
    double start = 0;
    double seconds = 0;
    for (int other : all) {
      Walker& walker = walkers_[static_cast<std::size_t>(other)];
      Waiting& side = walker.at(other == index ? queue : plan::counterpart(queue, mine.stage));
      if (side.lines.empty()) return false;
      const Queued& head = side.lines.front();
      if (other != index && !meets(line, walker.line(head.line))) return false;
      start = std::max({start, head.issued, side.free});
      seconds = std::max(seconds, cost_(walker.rank, walker.line(head.line)));
      sides.push_back(&side);
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      end(all[i], sides[i]->lines.front().line, start, start + seconds);
      sides[i]->free = start + seconds;
      sides[i]->lines.pop_front();
      if (all[i] != index) awake.push_back(all[i]);
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
