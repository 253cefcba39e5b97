#include "bench/scoreboard/zero_bubble_runs.h"

#include <fmt/core.h>

#include <algorithm>

namespace trireme::scoreboard {
namespace {

// Runs that wait for all ranks before the optimizer step: ranks meet.
bool meets(std::string_view schedule) {
  return schedule.find("all-reduce") != std::string_view::npos;
}

double samples_per_second(const ZeroBubbleRun& run, double milliseconds) {
  return 1000 * run.micro_batches * run.micro_batch / (run.ranks * milliseconds);
}

double busy_share(const ZeroBubbleCase& one) { return one.forecast.busy / one.forecast.step; }

bool scored(const ZeroBubbleCase& one) { return one.throughput.unscored.empty(); }

Case with_loss(const ZeroBubbleCase& one, double loss) {
  Case result = one.throughput;
  if (!scored(one)) return result;
  result.forecast = samples_per_second(one, loss);
  result.low = result.forecast * (1 - kThroughputBand);
  result.high = result.forecast * (1 + kThroughputBand);
  return result;
}

}  // namespace

ZeroBubbleCase zero_bubble_case(const Csv& csv, std::size_t row, const std::string& cell) {
  const std::string &model = csv.text(row, "model"), &schedule = csv.text(row, "schedule");
  const double micro_batch = csv.need(row, "microbatch");
  ZeroBubbleCase one{
      .throughput = {.row =
                         fmt::format("{} {} p {} m {} b {:g}", schedule, model, csv.text(row, "pp"),
                                     csv.text(row, "num_microbatches"), micro_batch),
                     .quantity = "throughput",
                     .unit = "samples/s/GPU",
                     .group = model,
                     .measured = csv.need(row, "samples_per_gpu_s"),
                     .lines = {csv.line(row)}},
      .cell = cell};
  const auto run = zero_bubble_run(csv, row, model, micro_batch);
  const auto known = named_schedule(schedule.substr(0, schedule.find(' ')));
  one.throughput.unscored = why_not(run, known);
  if (!scored(one)) return one;
  one.run = *run;
  one.forecast = run_schedule(*run, *known, Transfers::kBlocking, meets(schedule));
  one.throughput.null = samples_per_second(
      *run, run_schedule(*run, *known, Transfers::kBehind, meets(schedule)).step);
  return one;
}

double samples_per_second(const ZeroBubbleCase& one, double sustained_loss) {
  return samples_per_second(one.run, one.forecast.step * (1 + sustained_loss * busy_share(one)));
}

double fit_sustained_loss(const std::vector<ZeroBubbleCase>& cases) {
  double products = 0, squares = 0;
  for (const ZeroBubbleCase& one : cases) {
    if (!scored(one)) continue;
    const double slower = samples_per_second(one, 0) / one.throughput.measured - 1;
    products += busy_share(one) * slower;
    squares += busy_share(one) * busy_share(one);
  }
  return squares > 0 ? products / squares : 0;
}

std::vector<Case> throughput(const std::vector<ZeroBubbleCase>& cases) {
  std::vector<Case> all;
  for (const ZeroBubbleCase& one : cases) all.push_back(with_loss(one, kSustainedLoss));
  return all;
}

std::vector<Case> throughput_left_out(const std::vector<ZeroBubbleCase>& cases) {
  std::vector<Case> all;
  for (const ZeroBubbleCase& one : cases) {
    std::vector<ZeroBubbleCase> others;
    std::ranges::copy_if(cases, std::back_inserter(others), [&](const ZeroBubbleCase& other) {
      return other.throughput.group != one.throughput.group;
    });
    all.push_back(with_loss(one, fit_sustained_loss(others)));
  }
  return all;
}

std::vector<Case> order(const std::vector<ZeroBubbleCase>& cases) {
  const auto sign = [](double number) { return (number > 0) - (number < 0); };
  std::vector<Case> all;
  for (auto a = cases.begin(); a != cases.end(); ++a)
    for (auto b = cases.begin(); b != a; ++b) {
      const Case &first = a->throughput, &second = b->throughput;
      if (a->cell != b->cell || !scored(*a) || !scored(*b) || first.measured == second.measured)
        continue;
      all.push_back({.row = first.row + " over " + second.row,
                     .quantity = "order of schedules",
                     .group = a->cell,
                     .measured = static_cast<double>(sign(first.measured - second.measured)),
                     .forecast = static_cast<double>(sign(samples_per_second(*a, kSustainedLoss) -
                                                          samples_per_second(*b, kSustainedLoss))),
                     .lines = {first.lines.front(), second.lines.front()}});
    }
  return all;
}

double gigabytes(const ZeroBubbleRun& run, const ScheduleForecast& forecast) {
  const double h = run.gpt.hidden;
  const double states = 16 * 12 * h * h * run.layers;
  return 1e-9 * (states + forecast.memory *
                              block_activations(run.gpt, run.micro_batch, 1, false, Kept::kAll));
}

std::vector<Case> memory(const Csv& csv, const std::vector<ZeroBubbleCase>& cases) {
  std::vector<Case> all;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const auto measured = csv.number(row, "memory_GB");
    if (!measured) continue;
    Case one = cases[row].throughput;
    one.quantity = "memory";
    one.unit = "GB";
    one.measured = *measured;
    one.null.reset();
    if (scored(cases[row])) one.forecast = gigabytes(cases[row].run, cases[row].forecast);
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace trireme::scoreboard
