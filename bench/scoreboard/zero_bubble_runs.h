// What the runs of Qi et al. 2023 reach: samples a second and memory, from schedules and profiled times.
#pragma once

#include "bench/scoreboard/score.h"
#include "bench/scoreboard/zero_bubble.h"

namespace trireme::scoreboard {

// A measured run and the parts of its forecast, before the one constant of these tables.
struct ZeroBubbleCase {
  Case throughput;   // samples a second and GPU, by model; its forecast is still to be filled in
  std::string cell;  // of runs that differ in the schedule
  ZeroBubbleRun run;
  ScheduleForecast forecast;
};

// Share by which kernels of a step slow down against the profile when a GPU never idles; a step that computes half of
// the time loses half of it. Fitted on all rows; docs/planner.md.
inline constexpr double kSustainedLoss = 0.074;

// 80 of 100 measurements lie within this share of their forecast, on the same rows.
inline constexpr double kThroughputBand = 0.022;

// Of a row with columns model, pp, microbatch, num_microbatches, schedule and samples_per_gpu_s.
ZeroBubbleCase zero_bubble_case(const Csv& csv, std::size_t row, const std::string& cell);

// Samples a second and GPU.
double samples_per_second(const ZeroBubbleCase& one, double sustained_loss);

// The loss that fits these best, by least squares of relative errors.
double fit_sustained_loss(const std::vector<ZeroBubbleCase>& cases);

// Cases of throughput by the constant, or by one fitted without the group of each.
std::vector<Case> throughput(const std::vector<ZeroBubbleCase>& cases);
std::vector<Case> throughput_left_out(const std::vector<ZeroBubbleCase>& cases);

// Of every pair of runs of a cell (Case::group) whose measurements differ: which is faster (1 or -1), measured and
// forecast.
std::vector<Case> order(const std::vector<ZeroBubbleCase>& cases);

// Decimal GB of the fullest rank: 16 bytes of a parameter of its blocks and 34 + 5as/h of an activation
// (Korthikanti et al. 2022), for as many micro-batches as the schedule holds.
double gigabytes(const ZeroBubbleRun& run, const ScheduleForecast& forecast);
std::vector<Case> memory(const Csv& csv, const std::vector<ZeroBubbleCase>& cases);

}  // namespace trireme::scoreboard
