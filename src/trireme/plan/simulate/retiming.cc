#include "trireme/plan/simulate/retiming.h"

#include <algorithm>
#include <utility>

namespace trireme::simulate {

using plan::Instr;
using plan::Lane;
using plan::PlanSet;

void busy(ListForecast& list, const Instr& line, double start, double end,
          const LineSeconds& seconds) {
  list.comp_busy_s += end - start - seconds.waited;
  list.exposed_comm_s += seconds.waited;
  list.exposed_transfers_s += seconds.transfers;
  if (!plan::computes(line)) return;
  if (list.nodes_span_s == 0) list.nodes_first_s = start;
  list.nodes_busy_s += end - start;
  list.nodes_span_s = end - list.nodes_first_s;
}

void expose(ListForecast& list, const Instr& communication, const LineTime& blocking,
            double waited) {
  if (waited <= 0 || communication.lane == Lane::kComp) return;
  const double seconds = std::min(waited, blocking.end - blocking.start);
  const bool offload = communication.lane == Lane::kH2d || communication.lane == Lane::kD2h;
  (offload ? list.exposed_offload_s : list.exposed_comm_s) += seconds;
  if (plan::is_transfer(communication)) list.exposed_transfers_s += seconds;
}

namespace {

class Retiming {
 public:
  Retiming(const PlanSet& plan, const std::vector<TaskTime>& times,
           const std::vector<std::vector<int>>& tasks)
      : plan_(plan), times_(times), tasks_(tasks), lines_(times.size()) {
    for (int list = 0; list < static_cast<int>(tasks.size()); ++list)
      for (int line = 0; line < static_cast<int>(list_of(list).size()); ++line)
        lines_[task_of(list, line)] = {.list = list, .line = line};
  }

  void apply(Forecast& forecast) const {
    for (int list = 0; list < static_cast<int>(tasks_.size()); ++list) {
      ListForecast fresh{.sent_bytes = forecast.lists[list].sent_bytes};
      double before = 0;
      for (int i = 0; i < static_cast<int>(list_of(list).size()); ++i) {
        const TaskTime& at = time(task_of(list, i));
        const Instr& line = plan_.lists[list][i];
        fresh.lines.push_back({.start = at.start, .end = at.end});
        fresh.cause.push_back(line_of(at.cause));
        if (line.lane != Lane::kComp) continue;
        int last = -1;
        for (const int earlier : line.after)
          if (last < 0 || fresh.lines[earlier].end > fresh.lines[last].end) last = earlier;
        if (last >= 0) expose(fresh, plan_.lists[list][last], fresh.lines[last], at.start - before);
        busy(fresh, line, at.start, at.end);
        before = at.end;
      }
      forecast.lists[list] = std::move(fresh);
    }
  }

 private:
  const std::vector<int>& list_of(int list) const { return tasks_[list]; }
  int task_of(int list, int line) const { return list_of(list)[line]; }
  const TaskTime& time(int task) const { return times_[task]; }
  // Past tasks that are no line's, such as the issue of one.
  LineRef line_of(int task) const {
    while (task >= 0 && lines_[task].line < 0) task = time(task).cause;
    return task < 0 ? LineRef{} : lines_[task];
  }

  const PlanSet& plan_;
  const std::vector<TaskTime>& times_;
  const std::vector<std::vector<int>>& tasks_;
  std::vector<LineRef> lines_;  // by task: one of those that it is
};

}  // namespace

void retime(const PlanSet& plan, const std::vector<TaskTime>& times,
            const std::vector<std::vector<int>>& tasks, Forecast& forecast) {
  Retiming(plan, times, tasks).apply(forecast);
}

}  // namespace trireme::simulate
