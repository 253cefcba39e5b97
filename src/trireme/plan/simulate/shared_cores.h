// More ranks than cores: what a step takes where ranks share them.
#pragma once

#include <vector>

namespace trireme::simulate {

// Cores that the ranks of a step share. A line of a rank uses one core as long as it has work. All lines with work run
// at one speed, as under an operating system's scheduler.
struct Cores {
  int count = 0;  // 0: every rank has one of its own
  double crowding =
      1;  // what takes 1 s while the other cores are idle takes this where all are busy

  // Speed of each of `running` lines, where one that runs alone has 1. Between one busy core and all of them time grows
  // evenly.
  double speed(double running) const;
  bool operator==(const Cores&) const = default;
};

// Dependencies in a step. They do not depend on durations, because order within a queue is the plan's.
struct TaskGraph {
  struct Task {
    double work = 0;                // seconds of one core for each of its ranks
    double latency = 0;             // until what it brings is there
    double ranks = 0;               // that work meanwhile; 0 of one that only marks a moment
    std::vector<int> ended{};       // begins when these have ended
    std::vector<int> worked{};      // and these have done their work
    std::vector<int> not_before{};  // does not end before these
  };
  std::vector<Task> tasks;
};

// Start and end of tasks, and the task that each started after (-1: it starts with the step).
struct TaskTime {
  double start = 0;
  double end = 0;
  int cause = -1;
};
// Exact: event by event, between which speeds are constant. Tasks stand after all they wait for.
std::vector<TaskTime> run_tasks(const TaskGraph& graph, const Cores& cores);

}  // namespace trireme::simulate
