// Forecasts of memory beside what runs reported, and the fit of the two constants that facts do not give.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "bench/scoreboard/memory_runs.h"

namespace trireme::scoreboard {
namespace {

constexpr double kMiB = 1 << 20, kGiB = 1 << 30;

double unit_of(View view) { return view == View::kDevice ? 1000 * kMiB : kGiB; }

// 80 of 100 rows are this near, groups left out: docs/planner.md.
constexpr double kBand = 0.05;

DeviceMemory scaled(DeviceMemory memory, const MemoryConstants& constants) {
  for (MemoryTerm& term : memory.terms) {
    if (term.pool == Pool::kHoles) term.bytes *= constants.holes;
    if (term.name == "communicators") term.bytes *= constants.communicator;
  }
  return memory;
}

double forecast(const MemoryRun& run, const MemoryConstants& constants) {
  const DeviceMemory memory = fullest(run.memory, constants);
  const double bytes = run.view == View::kAllocator ? memory.reserved() : memory.needed();
  return bytes / unit_of(run.view);
}

// The tensors of the plan, and what was left over on average: what the other terms have to beat.
double simple(const MemoryRun& run) {
  constexpr double kLeftOver = 17.3e9;
  return (fullest(run.memory).allocated() + kLeftOver) / unit_of(run.view);
}

Case named(const MemoryRun& run, const char* quantity) {
  Case one{.row = run.row, .quantity = quantity, .group = run.group};
  one.unscored = run.unscored;
  one.lines = {run.line};
  return one;
}

Case memory_case(const MemoryRun& run, const MemoryConstants& constants) {
  Case one = named(run, kMemoryQuantity);
  one.unit = run.view == View::kDevice ? "GB" : "GiB";
  one.measured = run.measured;
  one.forecast = forecast(run, constants);
  one.low = one.forecast / (1 + kBand);
  one.high = one.forecast * (1 + kBand);
  if (run.view == View::kDevice) one.null = simple(run);
  return one;
}

// A run's forecast in parts: base + holes * kept + communicator * groups, of each list.
struct Parts {
  double base = 0, kept = 0, groups = 0;
};
struct Fitted {
  double measured = 0;
  std::vector<Parts> lists;
};

Fitted parts_of(const MemoryRun& run) {
  Fitted fitted{.measured = run.measured * unit_of(run.view), .lists = {}};
  for (const DeviceMemory& memory : run.memory)
    fitted.lists.push_back({scaled(memory, {.holes = 0, .communicator = 0}).needed(),
                            memory.of(Pool::kHoles), memory.term("communicators")});
  return fitted;
}

double mean_error(const std::vector<Fitted>& runs, double holes, double communicator) {
  double sum = 0;
  for (const Fitted& run : runs) {
    double most = 0;
    for (const Parts& list : run.lists)
      most = std::max(most, list.base + holes * list.kept + communicator * list.groups);
    sum += std::abs(most / run.measured - 1);
  }
  return sum / static_cast<double>(runs.size());
}

}  // namespace

DeviceMemory fullest(const PlanMemory& memory, const MemoryConstants& constants) {
  DeviceMemory most = scaled(memory.front(), constants);
  for (const DeviceMemory& each : memory)
    if (DeviceMemory other = scaled(each, constants); other.needed() > most.needed())
      most = std::move(other);
  return most;
}

std::vector<Case> memory_cases(const std::vector<MemoryRun>& runs,
                               const MemoryConstants& constants) {
  std::vector<Case> all;
  for (const MemoryRun& run : runs)
    if (run.view != View::kNone && run.unscored.empty()) all.push_back(memory_case(run, constants));
  return all;
}

MemoryConstants fit_memory(const std::vector<MemoryRun>& runs) {
  std::vector<Fitted> fitted;
  for (const MemoryRun& run : runs)
    if (run.view == View::kDevice) fitted.push_back(parts_of(run));
  if (fitted.empty()) return {};
  MemoryConstants best;
  double least = std::numeric_limits<double>::infinity();
  for (int holes = 0; holes <= 60; ++holes) {
    for (int communicator = 0; communicator <= 60; ++communicator) {
      const double error = mean_error(fitted, 0.01 * holes, 1e7 * communicator);
      if (error >= least) continue;
      least = error;
      best.holes = 0.01 * holes;
      best.communicator = 1e7 * communicator;
    }
  }
  return best;
}

std::vector<Case> memory_left_out(const std::vector<MemoryRun>& runs) {
  std::vector<Case> all;
  std::set<std::string> groups;
  for (const MemoryRun& run : runs) groups.insert(run.group);
  for (const std::string& group : groups) {
    std::vector<MemoryRun> others, own;
    for (const MemoryRun& run : runs) (run.group == group ? own : others).push_back(run);
    const std::vector<Case> cases = memory_cases(own, fit_memory(others));
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

std::vector<Case> fits_cases(const std::vector<MemoryRun>& runs) {
  std::vector<Case> all;
  for (const MemoryRun& run : runs) {
    Case one = named(run, run.ran ? kRanQuantity : kFailedQuantity);
    if (one.unscored.empty()) {
      one.measured = run.ran ? 1 : 0;
      one.forecast = fits(fullest(run.memory), run.capacity) ? 1 : 0;
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace trireme::scoreboard
