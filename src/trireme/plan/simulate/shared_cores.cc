#include "trireme/plan/simulate/shared_cores.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

#include "trireme/base/error.h"

namespace trireme::simulate {
namespace {

// What comes next: the earliest first, of the same moment the first task.
using Agenda = std::priority_queue<std::pair<double, int>, std::vector<std::pair<double, int>>,
                                   std::greater<>>;

class TaskRun {
 public:
  TaskRun(const TaskGraph& graph, const Cores& cores)
      : tasks_(graph.tasks), cores_(cores), states_(tasks_.size()), times_(tasks_.size()) {
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      const TaskGraph::Task& task = tasks_[i];
      states_[i].waits = static_cast<int>(task.ended.size() + task.worked.size());
      states_[i].holds = 1 + static_cast<int>(task.not_before.size());
      for (const int one : task.ended) at(one).on_end.push_back(static_cast<int>(i));
      for (const int one : task.worked) at(one).on_work.push_back(static_cast<int>(i));
      for (const int one : task.not_before) at(one).on_hold.push_back(static_cast<int>(i));
    }
  }

  std::vector<TaskTime> run() && {
    for (std::size_t i = 0; i < tasks_.size(); ++i)
      if (states_[i].waits == 0) begin(static_cast<int>(i), -1);
    while (!working_.empty() || !travelling_.empty()) {
      const double speed = cores_.speed(running_);
      const double worked =
          working_.empty() ? INFINITY : now_ + (working_.top().first - done_) / speed;
      if (travelling_.empty() || worked <= travelling_.top().first) {
        const auto [amount, task] = working_.top();
        working_.pop();
        now_ = std::max(now_, worked);
        done_ = amount;
        running_ -= tasks_[task].ranks;
        finish_work(task);
      } else {
        const auto [moment, task] = travelling_.top();
        travelling_.pop();
        done_ += (moment - now_) * speed;
        now_ = moment;
        release(task);
      }
    }
    for (std::size_t i = 0; i < tasks_.size(); ++i)
      TRIREME_CHECK(states_[i].ended, "task {} never ends", i);
    return std::move(times_);
  }

 private:
  struct State {
    int waits = 0;  // to begin
    int holds = 0;  // to end
    bool ended = false;
    std::vector<int> on_end, on_work, on_hold;
  };
  State& at(int task) { return states_[task]; }

  void begin(int task, int cause) {
    const TaskGraph::Task& own = tasks_[task];
    times_[task] = {.start = now_, .cause = cause};
    running_ += own.ranks;
    working_.emplace(done_ + std::max(own.work, 0.0), task);
  }
  void finish_work(int task) {
    for (const int next : at(task).on_work) ready(next, task);
    const double latency = tasks_[task].latency;
    if (latency > 0)
      travelling_.emplace(now_ + latency, task);
    else
      release(task);
  }
  void release(int task) {
    if (--at(task).holds > 0) return;
    at(task).ended = true;
    times_[task].end = now_;
    for (const int next : at(task).on_hold) release(next);
    for (const int next : at(task).on_end) ready(next, task);
  }
  void ready(int task, int cause) {
    if (--at(task).waits == 0) begin(task, cause);
  }

  const std::vector<TaskGraph::Task>& tasks_;
  const Cores& cores_;
  std::vector<State> states_;
  std::vector<TaskTime> times_;
  Agenda working_;     // by what must have been done
  Agenda travelling_;  // by when it is there
  double now_ = 0;
  double done_ = 0;  // what a task that has run from the start has done
  double running_ = 0;
};

}  // namespace

double Cores::speed(double running) const {
  if (count == 0 || running <= 0) return 1;
  const double busy = std::min(running, static_cast<double>(count));
  const double crowd = count > 1 ? (busy - 1) / (count - 1) : 0;
  return busy / running / (1 + std::max(crowd, 0.0) * (crowding - 1));
}

std::vector<TaskTime> run_tasks(const TaskGraph& graph, const Cores& cores) {
  return TaskRun(graph, cores).run();
}

}  // namespace trireme::simulate
