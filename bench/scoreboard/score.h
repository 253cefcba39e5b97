// Score: forecasts beside published measurements, by table.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/scoreboard/csv.h"

namespace trireme::scoreboard {

// One measured number and ours.
struct Case {
  std::string row;       // what a reader finds it by: "175B full_recompute_no_SP"
  std::string quantity;  // "step time", with unit "s"; the name of one of the table's abilities
  std::string unit;
  // A family of configurations that cross-validation leaves out together; a section of layouts to choose from.
  std::string group;
  double measured = 0;
  double forecast = 0;
  std::optional<double> low;  // the band that holds 80 of 100
  std::optional<double> high;
  std::optional<double> null;  // the stupidest model that still works
  // Why there is no forecast, such as an input that the row lacks: then the case is counted and named, not scored.
  std::string unscored;
  // The lines of the file that it is about. A line that no case is about shows in the scoreboard.
  std::vector<std::size_t> lines;
};

// How far a forecast is from what was measured.
enum class Measure {
  kPercent,    // of the measurement
  kPoints,     // the difference in the unit of the case
  kExcess,     // the same, and 0 where the forecast is below the measurement
  kDoublings,  // powers of two that lie between the two
  kWrong,  // 100 where the two are not equal, so that the mean is the share of wrong answers in percent
};
// "%", "", "", "x2", "%"
const char* unit(Measure measure);

// Signed; infinite where a percentage or a power of two of nothing is asked for.
double error(double forecast, double measured, Measure measure);

// Errors as `measure` has them.
struct Score {
  std::size_t cases = 0;  // without those that are unscored
  double mape = 0;        // mean of absolute errors
  double largest = 0;
  double ninth = 0;                 // that nine of ten cases stay within
  double bias = 0;                  // mean of signed errors
  std::optional<double> coverage;   // share of cases within their band, in percent
  std::optional<double> null_mape;  // of the cases that have one
  std::optional<double> tau;        // Kendall's tau-b, mean over groups of two cases and more
  // The measured time of the group's choice over the best of it, mean, in percent; the mean of those
  // with equal forecasts.
  std::optional<double> regret;
};
// `ranked`: whether a group's cases are layouts to choose from, the smaller the better; else no tau and no regret.
Score score(const std::vector<Case>& cases, bool ranked = false,
            Measure measure = Measure::kPercent);

// Kendall's tau-b of pairs (forecast, measured); nothing where either side is all ties.
std::optional<double> kendall_tau(const std::vector<Case>& group);

}  // namespace trireme::scoreboard
