#include "trireme/plan/simulate/simulate.h"

#include <algorithm>
#include <deque>

#include "trireme/base/error.h"
#include "trireme/plan/check/meeting.h"
#include "trireme/plan/simulate/retiming.h"

namespace trireme::simulate {
namespace {

using mesh::Axis;
using plan::Instr;
using plan::Lane;
using plan::PlanSet;
using plan::Verb;

struct Queued {
  int line = -1;
  double issued = 0;
  LineRef behind{};
  int task = -1;  // its issue
};

struct Waiting {
  plan::Queue queue;
  std::deque<Queued> lines{};
  double free = 0;  // when its last line left it
  double last_end = 0;
  int last = -1;
  int task = -1;  // of that line
};

// One list on its walk; ranks that share a list move together.
struct Walker {
  int rank = 0;
  int stage = 0;
  const plan::List* list = nullptr;
  int next = 0;
  double now = 0;
  LineRef behind{};  // whose end is now
  std::vector<bool> ended;
  std::vector<Waiting> waiting{};
  double ranks = 1;          // that run the list
  int task = -1;             // that it has come to
  std::vector<int> tasks{};  // by line

  const Instr& line(int index) const { return (*list)[static_cast<std::size_t>(index)]; }
  Waiting& at(const plan::Queue& queue) {
    for (Waiting& one : waiting)
      if (one.queue == queue) return one;
    return waiting.emplace_back(Waiting{.queue = queue});
  }
};

class Simulation {
 public:
  // `graph`, if any, receives what waits for what.
  Simulation(const PlanSet& plan, const LineCost& cost, TaskGraph* graph)
      : plan_(plan), cost_(cost), graph_(graph), meetings_(plan, plan.list_of_rank) {
    for (int list = 0; list < static_cast<int>(plan.lists.size()); ++list) {
      const auto rank = std::ranges::find(plan.list_of_rank, list) - plan.list_of_rank.begin();
      const std::size_t lines = plan.lists[static_cast<std::size_t>(list)].size();
      walkers_.push_back({.rank = static_cast<int>(rank),
                          .stage = plan.mesh.coordinate(static_cast<int>(rank), Axis::kPp),
                          .list = &plan.lists[static_cast<std::size_t>(list)],
                          .ended = std::vector<bool>(lines),
                          .ranks = static_cast<double>(std::ranges::count(plan.list_of_rank, list)),
                          .tasks = std::vector<int>(graph != nullptr ? lines : 0, -1)});
      result_.lists.push_back(
          {.lines = std::vector<LineTime>(lines), .behind = std::vector<LineRef>(lines)});
    }
  }

  Forecast run() {
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
    for (std::size_t w = 0; w < walkers_.size(); ++w)
      for (std::size_t i = 0; i < walkers_[w].ended.size(); ++i)
        TRIREME_CHECK(walkers_[w].ended[i], "list {} line {} never ends: validate the plan first",
                      w, i);
    return std::move(result_);
  }

  // The tasks of every list, by line, once it has run.
  std::vector<std::vector<int>> tasks() && {
    std::vector<std::vector<int>> all;
    for (Walker& walker : walkers_) all.push_back(std::move(walker.tasks));
    return all;
  }

 private:
  ListForecast& forecast(int walker) { return result_.lists[static_cast<std::size_t>(walker)]; }
  LineTime& time(int walker, int line) {
    return forecast(walker).lines[static_cast<std::size_t>(line)];
  }

  // Takes the next line if all it waits for has ended; wakes those whose lines end with it.
  bool walk(int index, std::vector<int>& awake) {
    Walker& walker = walkers_[static_cast<std::size_t>(index)];
    if (walker.next == static_cast<int>(walker.list->size())) return false;
    const Instr& line = walker.line(walker.next);
    int last = -1;  // of those it waits for
    for (int earlier : line.after) {
      if (!walker.ended[static_cast<std::size_t>(earlier)]) return false;
      if (last < 0 || time(index, earlier).end > time(index, last).end) last = earlier;
    }
    const double before = walker.now;
    if (last >= 0 && time(index, last).end > walker.now) {
      walker.now = time(index, last).end;
      walker.behind = {.list = index, .line = last};
    }
    if (line.lane != Lane::kComp) {
      // grad_norm runs in place: everything after it waits, as its only successors do anyway.
      const plan::Queue queue = plan::queue_of(line);
      walker.task = add_task(walker, line, {});
      walker.at(queue).lines.push_back({.line = walker.next++,
                                        .issued = walker.now,
                                        .behind = walker.behind,
                                        .task = walker.task});
      while (meet(index, queue, awake)) continue;
      return true;
    }
    if (last >= 0)
      expose(forecast(index), walker.line(last), time(index, last), walker.now - before);
    const double start = walker.now;
    const LineSeconds cost = cost_(walker.rank, line);
    const double seconds = cost.all();
    walker.task = add_task(walker, line, {.work = seconds, .ranks = walker.ranks});
    if (graph_ != nullptr) walker.tasks[static_cast<std::size_t>(walker.next)] = walker.task;
    end(index, walker.next, {.start = start, .end = start + seconds}, walker.behind);
    walker.now = start + seconds;
    walker.behind = {.list = index, .line = walker.next++};
    busy(forecast(index), line, start, walker.now, cost);
    return true;
  }

  void end(int index, int line, const LineTime& at, const LineRef& behind) {
    Walker& walker = walkers_[static_cast<std::size_t>(index)];
    time(index, line) = at;
    forecast(index).behind[static_cast<std::size_t>(line)] = behind;
    walker.ended[static_cast<std::size_t>(line)] = true;
    forecast(index).sent_bytes += sent_bytes(plan_, walker.line(line));
  }

  // A task that comes after what the list has come to and what the line waits for; -1 without a graph.
  int add_task(const Walker& walker, const Instr& line, TaskGraph::Task task) {
    if (graph_ == nullptr) return -1;
    if (walker.task >= 0) task.ended.push_back(walker.task);
    for (const int earlier : line.after)
      task.ended.push_back(walker.tasks[static_cast<std::size_t>(earlier)]);
    graph_->tasks.push_back(std::move(task));
    return static_cast<int>(graph_->tasks.size()) - 1;
  }

  // Of all sides together.
  void add_meeting(const std::vector<int>& all, const std::vector<Waiting*>& sides,
                   const LineSeconds& seconds) {
    if (graph_ == nullptr) return;
    TaskGraph::Task task{.work = seconds.busy, .latency = seconds.latency};
    for (std::size_t i = 0; i < all.size(); ++i) {
      Walker& walker = walkers_[static_cast<std::size_t>(all[i])];
      task.ranks += walker.ranks;
      task.ended.push_back(sides[i]->lines.front().task);
      if (sides[i]->task >= 0) {
        task.worked.push_back(sides[i]->task);
        task.not_before.push_back(sides[i]->task);
      }
      sides[i]->task = static_cast<int>(graph_->tasks.size());
      walker.tasks[static_cast<std::size_t>(sides[i]->lines.front().line)] = sides[i]->task;
    }
    graph_->tasks.push_back(std::move(task));
  }

  // Runs the line at the head of a queue if all who take part have come to it.
  bool meet(int index, const plan::Queue& queue, std::vector<int>& awake) {
    Walker& mine = walkers_[static_cast<std::size_t>(index)];
    if (mine.at(queue).lines.empty()) return false;
    const Instr& line = mine.line(mine.at(queue).lines.front().line);
    const std::vector<int> all = meetings_.participants(index, line);
    std::vector<Waiting*> sides;
    for (int other : all) {
      Walker& walker = walkers_[static_cast<std::size_t>(other)];
      Waiting& side = walker.at(other == index ? queue : plan::counterpart(queue, mine.stage));
      if (side.lines.empty()) return false;
      if (other != index &&
          !plan::meets(line, mine.stage, walker.line(side.lines.front().line), walker.stage))
        return false;
      sides.push_back(&side);
    }
    LineTime at;
    LineRef behind;
    LineSeconds seconds = 0;
    const auto later = [&](double ready, const LineRef& cause) {
      if (ready <= at.start) return;
      at.start = ready;
      behind = cause;
    };
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Queued& head = sides[i]->lines.front();
      const Walker& walker = walkers_[static_cast<std::size_t>(all[i])];
      later(head.issued, head.behind);
      later(sides[i]->free, {.list = all[i], .line = sides[i]->last});
      const LineSeconds own = cost_(walker.rank, walker.line(head.line));
      if (own.all() > seconds.all()) seconds = own;
    }
    add_meeting(all, sides, seconds);
    // What travels arrives in order.
    at.end = at.start + seconds.all();
    for (const Waiting* side : sides) at.end = std::max(at.end, side->last_end);
    for (std::size_t i = 0; i < all.size(); ++i) {
      Waiting& side = *sides[i];
      side.last = side.lines.front().line;
      side.lines.pop_front();
      side.free = at.start + seconds.busy;
      side.last_end = at.end;
      end(all[i], side.last, at, behind);
      if (all[i] != index) awake.push_back(all[i]);
    }
    return true;
  }

  const PlanSet& plan_;
  const LineCost& cost_;
  TaskGraph* graph_;
  std::vector<Walker> walkers_;
  plan::Meetings meetings_;
  Forecast result_;
};

double step_of(const Forecast& forecast) {
  double step = 0;
  for (const ListForecast& list : forecast.lists)
    for (const LineTime& line : list.lines) step = std::max(step, line.end);
  return step;
}

void summarise(const PlanSet& plan, Forecast& forecast) {
  forecast.step_s = step_of(forecast);
  std::vector<double> sharing(plan.lists.size());  // the part of all ranks that run a list
  for (int list : plan.list_of_rank)
    sharing[static_cast<std::size_t>(list)] += 1.0 / static_cast<double>(plan.list_of_rank.size());
  double busy = 0, nodes = 0, span = 0;
  for (std::size_t l = 0; l < plan.lists.size(); ++l) {
    ListForecast& list = forecast.lists[l];
    const auto rank = std::ranges::find(plan.list_of_rank, static_cast<int>(l));
    list.memory = plan::memory_account(plan, static_cast<int>(rank - plan.list_of_rank.begin()));
    if (forecast.step_s > 0) list.bubble_fraction = 1 - list.comp_busy_s / forecast.step_s;
    busy += sharing[l] * list.comp_busy_s;
    nodes += sharing[l] * list.nodes_busy_s;
    span = std::max(span, list.nodes_span_s);
    forecast.exposed_comm_s += sharing[l] * list.exposed_comm_s;
    forecast.exposed_transfers_s += sharing[l] * list.exposed_transfers_s;
    forecast.exposed_offload_s += sharing[l] * list.exposed_offload_s;
    forecast.peak_bytes = std::max(forecast.peak_bytes, list.memory.peak_total);
  }
  forecast.comp_busy_s = busy;
  if (forecast.step_s > 0) forecast.bubble_fraction = 1 - busy / forecast.step_s;
  if (span > 0) forecast.pipeline_bubble = 1 - nodes / span;
}

}  // namespace

Forecast simulate(const PlanSet& plan, const LineCost& cost) {
  Forecast forecast = Simulation(plan, cost, nullptr).run();
  summarise(plan, forecast);
  return forecast;
}

Forecast simulate(const PlanSet& plan, const LineCost& cost, const Cores& cores) {
  if (cores.count == 0) return simulate(plan, cost);
  TaskGraph graph;
  Simulation simulation(plan, cost, &graph);
  Forecast forecast = simulation.run();
  const std::vector<std::vector<int>> tasks = std::move(simulation).tasks();
  retime(plan, run_tasks(graph, cores), tasks, forecast);
  summarise(plan, forecast);
  return forecast;
}

Forecast simulate(const PlanSet& plan, const CostModel& model) {
  return simulate(plan,
                  [&](int rank, const Instr& line) { return seconds(model, plan, rank, line); });
}

}  // namespace trireme::simulate
