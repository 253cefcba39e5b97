#include "bench/scoreboard/score.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace trireme::scoreboard {
namespace {

// Mean of what is there; nothing of nothing.
class Mean {
 public:
  void add(double value) {
    sum_ += value;
    ++count_;
  }
  void add(const std::optional<double>& value) {
    if (value) add(*value);
  }
  std::optional<double> value() const {
    if (count_ == 0) return {};
    return sum_ / static_cast<double>(count_);
  }

 private:
  double sum_ = 0;
  std::size_t count_ = 0;
};

std::optional<double> regret(const std::vector<Case>& group) {
  if (group.size() < 2) return {};
  const double least = std::ranges::min_element(group, {}, &Case::forecast)->forecast;
  const Case& best = *std::ranges::min_element(group, {}, &Case::measured);
  Mean choices;  // of equal forecasts any may be chosen
  for (const Case& one : group)
    if (one.forecast == least) choices.add(one.measured);
  return 100 * (*choices.value() / best.measured - 1);
}

int sign(double number) { return (number > 0) - (number < 0); }

}  // namespace

const char* unit(Measure measure) {
  switch (measure) {
    case Measure::kPercent:
    case Measure::kWrong: return "%";
    case Measure::kDoublings: return "x2";
    case Measure::kPoints:
    case Measure::kExcess: break;
  }
  return "";
}

double error(double forecast, double measured, Measure measure) {
  const double none = std::numeric_limits<double>::infinity();
  switch (measure) {
    case Measure::kPercent:
      if (measured == 0) return forecast == 0 ? 0 : std::copysign(none, forecast);
      return 100 * (forecast - measured) / std::abs(measured);
    case Measure::kPoints: return forecast - measured;
    case Measure::kExcess: return std::max(0.0, forecast - measured);
    case Measure::kDoublings:
      return forecast > 0 && measured > 0 ? std::log2(forecast / measured) : none;
    case Measure::kWrong: return 100.0 * sign(forecast - measured);
  }
  return none;
}

std::optional<double> kendall_tau(const std::vector<Case>& group) {
  double agree = 0, by_forecast = 0, by_measured = 0;
  for (auto a = group.begin(); a != group.end(); ++a)
    for (auto b = group.begin(); b != a; ++b) {
      const int forecast = sign(a->forecast - b->forecast);
      const int measured = sign(a->measured - b->measured);
      agree += forecast * measured;
      by_forecast += forecast != 0;
      by_measured += measured != 0;
    }
  if (by_forecast == 0 || by_measured == 0) return {};
  return agree / std::sqrt(by_forecast * by_measured);
}

Score score(const std::vector<Case>& cases, bool ranked, Measure measure) {
  Mean absolute, bias, covered, null, tau, lost;
  std::vector<double> errors;
  std::map<std::string, std::vector<Case>> groups;
  for (const Case& one : cases) {
    if (!one.unscored.empty()) continue;
    const double off = error(one.forecast, one.measured, measure);
    absolute.add(std::abs(off));
    bias.add(off);
    errors.push_back(std::abs(off));
    if (one.low && one.high)
      covered.add(*one.low <= one.measured && one.measured <= *one.high ? 100.0 : 0.0);
    if (one.null) null.add(std::abs(error(*one.null, one.measured, measure)));
    groups[one.group].push_back(one);
  }
  if (errors.empty()) return {};
  for (const auto& [name, group] : groups) {
    if (!ranked) break;
    tau.add(kendall_tau(group));
    lost.add(regret(group));
  }
  std::ranges::sort(errors);
  const auto place = static_cast<std::size_t>(std::ceil(0.9 * static_cast<double>(errors.size())));
  return {.cases = errors.size(),
          .mape = *absolute.value(),
          .largest = errors.back(),
          .ninth = errors[place - 1],
          .bias = *bias.value(),
          .coverage = covered.value(),
          .null_mape = null.value(),
          .tau = tau.value(),
          .regret = lost.value()};
}

}  // namespace trireme::scoreboard
