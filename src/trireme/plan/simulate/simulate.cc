#include "trireme/plan/simulate/simulate.h"

#include <algorithm>
#include <span>

#include "trireme/base/error.h"
#include "trireme/plan/check/list_walk.h"
#include "trireme/plan/simulate/retiming.h"

namespace trireme::simulate {
namespace {

using plan::Instr;
using plan::Lane;
using plan::PlanSet;
using plan::Verb;

// A queue of one list: when its last line left it.
struct QueueTime {
  double free = 0;
  double last_end = 0;
  int last = -1;
  int task = -1;  // of that line
};

// One walker's time.
struct WalkerTime {
  int rank = 0;    // the first one that it represents
  int number = 0;  // of its list
  const plan::List* list = nullptr;
  double now = 0;
  LineRef cause{};                  // whose end is now
  double ranks = 1;                 // that it represents
  int task = -1;                    // that it has come to
  std::vector<int> tasks{};         // by line; before a meeting, of its issue
  std::vector<QueueTime> queues{};  // as the walk numbers them

  const Instr& line(int index) const { return (*list)[index]; }
  int& task_of(int index) { return tasks[index]; }
  QueueTime& queue(std::size_t index) {
    if (queues.size() <= index) queues.resize(index + 1);
    return queues[index];
  }
};

// Gives every line of a walk its time. Until a line ends, its start is when it was issued.
class Simulation final : public plan::LineClock {
 public:
  // `graph`, if any, receives what waits for what.
  Simulation(const PlanSet& plan, const LineCost& cost, TaskGraph* graph)
      : plan_(plan), cost_(cost), graph_(graph) {
    const std::vector<int> walkers = plan::walkers_of(plan);
    for (int rank = 0; rank < static_cast<int>(walkers.size()); ++rank) {
      const int walker = walkers[rank];
      if (walker < static_cast<int>(walkers_.size())) continue;
      const int list = plan.list_of_rank[rank];
      const std::size_t lines = plan.list(rank).size();
      walkers_.push_back({.rank = rank,
                          .number = list,
                          .list = &plan.list(rank),
                          .ranks = static_cast<double>(std::ranges::count(walkers, walker)),
                          .tasks = std::vector<int>(graph != nullptr ? lines : 0, -1)});
      forecasts_.push_back(
          {.lines = std::vector<LineTime>(lines), .cause = std::vector<LineRef>(lines)});
    }
  }

  Forecast run() {
    plan::ListWalk walk(plan_, plan::LaneRoom::kAnyLines, this);
    walk.run();
    for (const plan::ListWalk::Walker& walker : walk.walkers())
      for (std::size_t i = 0; i < walker.ended.size(); ++i)
        TRIREME_CHECK(walker.ended[i], "rank {} line {} never ends: validate the plan first",
                      walker.rank, i);
    Forecast result;
    for (std::size_t list = 0; list < plan_.lists.size(); ++list)
      result.lists.push_back(forecasts_[first_of(list)]);
    return result;
  }

  // The tasks of every list, by line, once it has run.
  std::vector<std::vector<int>> tasks() const {
    std::vector<std::vector<int>> all;
    for (std::size_t list = 0; list < plan_.lists.size(); ++list)
      all.push_back(walkers_[first_of(list)].tasks);
    return all;
  }

 private:
  // The first walker that runs a list.
  std::size_t first_of(std::size_t list) const {
    const auto first = std::ranges::find(walkers_, static_cast<int>(list), &WalkerTime::number);
    return static_cast<std::size_t>(first - walkers_.begin());
  }
  WalkerTime& at(int walker) { return walkers_[walker]; }
  ListForecast& forecast(int walker) { return forecasts_[walker]; }
  LineTime& time(int walker, int line) { return forecast(walker).lines[line]; }
  LineRef& cause_of(int walker, int line) { return forecast(walker).cause[line]; }

  void begin(int index, int number) override {
    WalkerTime& list = at(index);
    const Instr& line = list.line(number);
    int last = -1;  // of those it waits for
    for (int earlier : line.after)
      if (last < 0 || time(index, earlier).end > time(index, last).end) last = earlier;
    const double before = list.now;
    if (last >= 0 && time(index, last).end > list.now) {
      list.now = time(index, last).end;
      list.cause = {.list = list.number, .line = last};
    }
    time(index, number).start = list.now;
    cause_of(index, number) = list.cause;
    if (line.lane == Lane::kComp) {
      if (last >= 0) expose(forecast(index), list.line(last), time(index, last), list.now - before);
      return;
    }
    // grad_norm runs in place: everything after it waits, as its only successors do anyway.
    if (graph_ != nullptr) list.task = list.task_of(number) = add_task(list, line, {});
  }

  void run(int index, int number) override {
    WalkerTime& list = at(index);
    const Instr& line = list.line(number);
    const LineSeconds cost = cost_(list.rank, line);
    if (graph_ != nullptr)
      list.task = list.task_of(number) =
          add_task(list, line, {.work = cost.all(), .ranks = list.ranks});
    end(index, number, {.start = list.now, .end = list.now + cost.all()}, list.cause);
    compute(index, number, cost);
  }

  // Its list comes to the end of a line of the compute lane.
  void compute(int index, int number, const LineSeconds& cost) {
    WalkerTime& list = at(index);
    const LineTime& line = time(index, number);
    list.now = line.end;
    list.cause = {.list = list.number, .line = number};
    busy(forecast(index), list.line(number), line.start, line.end, cost);
  }

  void end(int index, int number, const LineTime& when, const LineRef& cause) {
    time(index, number) = when;
    cause_of(index, number) = cause;
    forecast(index).sent_bytes += sent_bytes(plan_, at(index).line(number));
  }

  // A task that comes after what the list has come to and what the line waits for.
  int add_task(WalkerTime& list, const Instr& line, TaskGraph::Task task) {
    if (list.task >= 0) task.ended.push_back(list.task);
    for (const int earlier : line.after) task.ended.push_back(list.task_of(earlier));
    graph_->tasks.push_back(std::move(task));
    return static_cast<int>(graph_->tasks.size()) - 1;
  }

  // Of all sides together. A list that waits in its compute lane comes to nothing else before.
  void add_meeting(std::span<const Side> sides, const LineSeconds& seconds) {
    if (graph_ == nullptr) return;
    const auto computes = [&](const Side& side) {
      return at(side.walker).line(side.line).lane == Lane::kComp;
    };
    for (const Side& side : sides)
      if (computes(side))
        at(side.walker).task_of(side.line) =
            add_task(at(side.walker), at(side.walker).line(side.line), {});
    const auto number = static_cast<int>(graph_->tasks.size());
    TaskGraph::Task task{.work = seconds.busy, .latency = seconds.latency};
    for (const Side& side : sides) {
      WalkerTime& list = at(side.walker);
      QueueTime& queue = list.queue(side.queue);
      task.ranks += list.ranks;
      task.ended.push_back(list.task_of(side.line));
      if (queue.task >= 0) {
        task.worked.push_back(queue.task);
        task.not_before.push_back(queue.task);
      }
      queue.task = list.task_of(side.line) = number;
      if (computes(side)) list.task = number;
    }
    graph_->tasks.push_back(std::move(task));
  }

  void meet(std::span<const Side> sides) override {
    LineTime when;
    LineRef cause;
    LineSeconds seconds = 0;
    const auto later = [&](double ready, const LineRef& why) {
      if (ready <= when.start) return;
      when.start = ready;
      cause = why;
    };
    for (const Side& side : sides) {
      WalkerTime& list = at(side.walker);
      const QueueTime& queue = list.queue(side.queue);
      later(time(side.walker, side.line).start, cause_of(side.walker, side.line));
      later(queue.free, {.list = list.number, .line = queue.last});
      const LineSeconds own = cost_(list.rank, list.line(side.line));
      if (own.all() > seconds.all()) seconds = own;
    }
    add_meeting(sides, seconds);
    // What travels arrives in order.
    when.end = when.start + seconds.all();
    for (const Side& side : sides)
      when.end = std::max(when.end, at(side.walker).queue(side.queue).last_end);
    for (const Side& side : sides) {
      QueueTime& queue = at(side.walker).queue(side.queue);
      queue.last = side.line;
      queue.free = when.start + seconds.busy;
      queue.last_end = when.end;
      const double waited = when.start - time(side.walker, side.line).start;
      end(side.walker, side.line, when, cause);
      if (at(side.walker).line(side.line).lane != Lane::kComp) continue;
      forecast(side.walker).exposed_comm_s += waited;
      compute(side.walker, side.line, seconds);
    }
  }

  const PlanSet& plan_;
  const LineCost& cost_;
  TaskGraph* graph_;
  std::vector<WalkerTime> walkers_;
  std::vector<ListForecast> forecasts_;  // of walkers
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
    sharing[list] += 1.0 / static_cast<double>(plan.list_of_rank.size());
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
  const std::vector<std::vector<int>> tasks = simulation.tasks();
  retime(plan, run_tasks(graph, cores), tasks, forecast);
  summarise(plan, forecast);
  return forecast;
}

Forecast simulate(const PlanSet& plan, const CostModel& model) {
  return simulate(plan,
                  [&](int rank, const Instr& line) { return seconds(model, plan, rank, line); });
}

}  // namespace trireme::simulate
