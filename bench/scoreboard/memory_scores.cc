// Forecasts of memory beside what runs reported, and the fit of the two constants that facts do not give.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "bench/scoreboard/memory_runs.h"
#include "trireme/base/error.h"

namespace trireme::scoreboard {
namespace {

constexpr double kMiB = 1 << 20, kGiB = 1 << 30;

double unit_of(View view) { return view == View::kDevice ? 1000 * kMiB : kGiB; }

// 80 of 100 rows are this near, groups left out: docs/planner.md.
constexpr double kBand = 0.05;

double forecast(const MemoryRun& run, const MemoryConstants& constants) {
  const DeviceMemory memory = device_memory(run.model, run.split, run.practice, constants);
  const double bytes = run.view == View::kAllocator ? memory.reserved() : memory.on_device();
  return bytes / unit_of(run.view);
}

// Weights, gradients and states of the first stage, kept inputs, one layer at work, and what was left over on average:
// the 20 lines that a forecast has to beat.
double simple(const MemoryRun& run) {
  constexpr double kLeftOver = 17.3e9;
  const DeviceMemory memory = stage_memory(run.model, run.split, run.practice, 0);
  const double bytes = memory.term("weights") + memory.term("gradients") +
                       (run.practice.gradient_sums > 0 ? memory.term("gradients") : 0) +
                       memory.term("optimizer states") + memory.term("kept activations") +
                       memory.term("layer at work") + kLeftOver;
  return bytes / unit_of(run.view);
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

// A run's forecast in parts: base + holes * kept + communicator * groups, of each stage that may be fullest.
struct Parts {
  double base = 0, kept = 0, groups = 0;
};
struct Fitted {
  double measured = 0;
  std::vector<Parts> stages;
};

Fitted parts_of(const MemoryRun& run) {
  Fitted fitted{.measured = run.measured * unit_of(run.view), .stages = {}};
  for (const int stage : std::set<int>{0, std::min(1, run.split.pp - 1), run.split.pp - 1}) {
    MemoryConstants none{.holes = 0, .communicator = 0}, holes = none, groups = none;
    holes.holes = 1;
    groups.communicator = 1;
    const auto at = [&](const MemoryConstants& constants) {
      return stage_memory(run.model, run.split, run.practice, stage, constants).on_device();
    };
    const double base = at(none);
    fitted.stages.push_back({base, at(holes) - base, at(groups) - base});
  }
  return fitted;
}

double mean_error(const std::vector<Fitted>& runs, double holes, double communicator) {
  double sum = 0;
  for (const Fitted& run : runs) {
    double most = 0;
    for (const Parts& stage : run.stages)
      most = std::max(most, stage.base + holes * stage.kept + communicator * stage.groups);
    sum += std::abs(most / run.measured - 1);
  }
  return sum / static_cast<double>(runs.size());
}

}  // namespace

double device_bytes(int gigabytes) {
  switch (gigabytes) {
    case 32: return 32510 * kMiB;  // V100
    case 40: return 40536 * kMiB;  // A100
    case 80: return 81251 * kMiB;  // A100
    case 81: return 81559 * kMiB;  // H100, sold as 80
    case 96: return 97871 * kMiB;
    case 141: return 143771 * kMiB;
    default: fail(ErrorKind::kUsage, "no device of {} GB is known here", gigabytes);
  }
}

std::string lacking(const Csv& csv, std::size_t row, std::initializer_list<const char*> columns) {
  for (const char* column : columns)
    if (!number_of(csv.text(row, column))) return fmt::format("no {}", column);
  return "";
}

std::vector<Case> memory_cases(const std::vector<MemoryRun>& runs,
                               const MemoryConstants& constants) {
  std::vector<Case> all;
  for (const MemoryRun& run : runs)
    if (run.view != View::kNone) all.push_back(memory_case(run, constants));
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
      one.forecast = fits(device_memory(run.model, run.split, run.practice), run.capacity) ? 1 : 0;
    }
    all.push_back(std::move(one));
  }
  return all;
}

double largest_model(Split split, const MemoryPractice& practice, double vocab, double capacity,
                     const MemoryConstants& constants) {
  constexpr double kStep = 16, kWidest = 65536, kWidthOfLayer = 40, kHead = 64;
  double most = 0;
  for (double hidden = kStep; hidden <= kWidest; hidden += kStep) {
    const Decoder model{.layers = std::max(1.0, std::round(hidden / kWidthOfLayer)),
                        .hidden = hidden,
                        .heads = hidden / kHead,
                        .vocab = vocab};
    if (!fits(device_memory(model, split, practice, constants), capacity)) break;
    most = model.parameters();
  }
  return most;
}

}  // namespace trireme::scoreboard
