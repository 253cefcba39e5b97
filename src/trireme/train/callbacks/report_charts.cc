#include "trireme/train/callbacks/report_charts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "trireme/base/median.h"
#include "trireme/train/callbacks/chart.h"
#include "trireme/train/callbacks/step_time.h"

namespace trireme::train {
namespace {

constexpr double kSmallWidth = 430, kSmallHeight = 190;

Series series_of(const std::vector<StepMetrics>& steps, double StepMetrics::*field,
                 std::string name, std::string css_class) {
  Series series{.name = std::move(name), .css_class = std::move(css_class)};
  for (const StepMetrics& step : steps) series.points.emplace_back(step.step, step.*field);
  return series;
}

bool is_all_zero(const Series& series) {
  return std::ranges::all_of(series.points,
                             [](const auto& point) { return !(std::abs(point.second) > 0); });
}

// Means over about a hundredth of the run: what the eye looks for in a noisy curve.
Series smoothed(const Series& raw) {
  Series smooth{.name = raw.name.empty() ? "" : raw.name + ", smoothed", .css_class = "strong"};
  const double keep = 1 - 1 / std::max(2.0, static_cast<double>(raw.points.size()) / 100);
  double sum = 0, weight = 0;
  for (const auto& [x, y] : raw.points) {
    if (!std::isfinite(y)) continue;
    sum = keep * sum + y;
    weight = keep * weight + 1;
    smooth.points.emplace_back(x, sum / weight);
  }
  return smooth;
}

std::vector<ChartMark> marks(const Report& r) {
  std::vector<ChartMark> marks;
  for (const EventLine& event : r.events)
    marks.push_back({.step = static_cast<double>(event.step),
                     .text = fmt::format("step {}: {}: {}", event.step, event.kind, event.cause)});
  return marks;
}

// The baseline in the loss's own unit, from the first step to the last.
Series baseline(const Report& r) {
  Series line{.name = "n-gram baseline", .css_class = "rule"};
  const bool comparable = r.baseline && r.info.bytes_per_token > 0 &&
                          r.info.loss.unit == model::kNatsPerToken && !r.steps.empty();
  if (!comparable) return line;
  const double nats = *r.baseline * std::log(2.0) * r.info.bytes_per_token;
  line.points = {{r.steps.front().step, nats}, {r.steps.back().step, nats}};
  return line;
}

Chart small(std::string title, std::string unit, std::vector<Series> series) {
  return {.title = std::move(title),
          .unit = std::move(unit),
          .series = std::move(series),
          .width = kSmallWidth,
          .height = kSmallHeight};
}

std::string loss(const Report& r) {
  const Series raw = series_of(r.steps, &StepMetrics::loss, "training", "faint");
  Series validation{.name = "validation", .css_class = "marked"};
  for (const EvalMetrics& eval : r.evals) validation.points.emplace_back(eval.step, eval.loss);
  return draw({.title = "Loss",
               .unit = r.info.loss.text(),
               .series = {raw, smoothed(raw), validation, baseline(r)},
               .marks = marks(r)});
}

std::string throughput(const Report& r) {
  const Series raw = series_of(r.steps, &StepMetrics::tokens_per_s, "", "faint");
  Chart chart = small("Throughput", "tokens/s", {raw, smoothed(raw)});
  chart.from_zero = true;
  return draw(chart);
}

// Where a step's time went that did not compute.
std::string waits(const Report& r) {
  std::vector<Series> all = {series_of(r.steps, &StepMetrics::step_ms, "step", "faint")};
  const auto add = [&](double StepMetrics::*field, const char* name, const char* css_class) {
    if (Series series = series_of(r.steps, field, name, css_class); !is_all_zero(series))
      all.push_back(std::move(series));
  };
  add(&StepMetrics::comm_wait_ms, "communication", "strong");
  add(&StepMetrics::data_wait_ms, "data", "second");
  if (!r.info.offload.empty()) add(&StepMetrics::offload_wait_ms, "offload", "third");
  Chart chart = small("Step time and waits", "ms", std::move(all));
  chart.from_zero = true;
  return draw(chart);
}

std::string memory(const Report& r) {
  std::vector<Series> all;
  for (const auto& [field, name, css_class] :
       {std::tuple(&StepMetrics::rss_mb, "resident", "strong"),
        std::tuple(&StepMetrics::peak_mb, "tensors, peak of the step", "second")})
    if (Series series = series_of(r.steps, field, name, css_class); !is_all_zero(series))
      all.push_back(std::move(series));
  if (all.empty()) return "";
  Chart chart = small("Memory of rank 0", "MB", std::move(all));
  chart.from_zero = true;
  return draw(chart);
}

// One chart for each of the model's own, of training and validation.
std::string own_metrics(const Report& r) {
  struct Both {
    Series training{.name = "training", .css_class = "faint"};
    Series validation{.name = "validation", .css_class = "marked"};
  };
  std::vector<std::string> names;
  std::map<std::string, Both> all;
  const auto of = [&](const std::string& name) -> Both& {
    if (!all.contains(name)) names.push_back(name);
    return all[name];
  };
  for (const StepMetrics& step : r.steps)
    for (const auto& [name, value] : step.metrics)
      of(name).training.points.emplace_back(step.step, value);
  for (const EvalMetrics& eval : r.evals)
    for (const auto& [name, value] : eval.metrics)
      of(name).validation.points.emplace_back(eval.step, value);
  std::string html;
  for (const std::string& name : names) {
    const Both& both = all[name];
    Series smooth = smoothed(both.training);
    smooth.name.clear();
    html += draw(small(name, "", {both.training, smooth, both.validation}));
  }
  return html;
}

}  // namespace

double median_of(const std::vector<StepMetrics>& steps, double StepMetrics::*field) {
  std::vector<double> values;
  for (const StepMetrics& step : steps)
    if (std::isfinite(step.*field)) values.push_back(step.*field);
  return median(std::move(values));
}

std::string charts(const Report& r) {
  Chart rate = small("Learning rate", "", {series_of(r.steps, &StepMetrics::lr, "", "strong")});
  rate.from_zero = true;
  const Chart norm =
      small("Gradient norm", "", {series_of(r.steps, &StepMetrics::grad_norm, "", "strong")});
  return "<h2>Curves</h2>\n" + loss(r) + "<div class=\"charts\">\n" + own_metrics(r) + draw(rate) +
         draw(norm) + throughput(r) + waits(r) + memory(r) + "</div>\n";
}

}  // namespace trireme::train
