// Qi et al. 2023, arXiv 2401.10241, tables 5 and 8: the share of a step that the busiest rank is idle.
#include <fmt/core.h>

#include "bench/scoreboard/registry.h"
#include "bench/scoreboard/zero_bubble.h"

namespace trireme::scoreboard {
namespace {

// Table 8 names its pipelines as MODEL@pRANKS; their micro-batches are those of table 6.
double table_6_micro_batch(const std::string& model) { return model == "6.2B" ? 6 : 2; }

// Without transfers: sections 1 and 2.3 of the paper; what the searches aim at is no bubble.
double rate_without_transfers(const std::string& schedule, const ZeroBubbleRun& run) {
  const auto& [f, b, w] = run.stage;
  double idle = 0;
  if (schedule == "1F1B") idle = f + b + w;
  if (schedule == "1F1B-I") idle = (f + b + w) / run.layers;
  if (schedule == "ZB-H1" || schedule == "ZB-1p") idle = f + b - w;
  if (schedule == "ZB-H2") idle = f + b - 2 * w;
  idle *= run.ranks - 1;
  return 100 * idle / (idle + run.micro_batches * (f + b + w));
}

std::string quantity_of(const std::string& table, const std::string& schedule) {
  if (table != "5") return "table 8";
  if (schedule == "1F1B" || schedule == "1F1B-I") return schedule;
  return schedule.starts_with("ZB-H") ? "ZB-H1, ZB-H2" : "ZB-1p, ZB-2p";
}

std::vector<Case> bubble_rate_cases(const Csv& csv) {
  std::vector<Case> all;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const std::string &name = csv.text(row, "model"), &schedule = csv.text(row, "schedule");
    const std::string model = name.substr(0, name.find('@'));
    const auto run = zero_bubble_run(csv, row, model, table_6_micro_batch(model));
    const auto known = named_schedule(schedule);
    Case one{.row = fmt::format("{} {} m {}", schedule, name, csv.text(row, "num_microbatches")),
             .quantity = quantity_of(csv.text(row, "table"), schedule),
             .unit = "points",
             .group = name,
             .measured = 100 * csv.need(row, "bubble_rate"),
             .lines = {csv.line(row)}};
    one.unscored = why_not(run, known);
    if (one.unscored.empty()) {
      const ScheduleForecast forecast = run_schedule(*run, *known, Transfers::kBehind);
      one.forecast = 100 * (1 - forecast.busy / forecast.step);
      one.null = rate_without_transfers(schedule, *run);
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace

Table zero_bubble_rates_table() {
  const std::string null = "formula without transfers";
  return {.name = "zb_table5_8_bubble_rates",
          .abilities = {{.quantity = "1F1B",
                         .measure = Measure::kPoints,
                         .bar = {.largest =
                                     0.0051},  // half of the fourth decimal, and its own rounding
                         .peer = "plain event simulation 0.0, to four decimals",
                         .null = null},
                        {.quantity = "1F1B-I",
                         .measure = Measure::kPoints,
                         .bar = {.largest = 0.5},
                         .peer = "naive interleaving 0.2, max 0.4",
                         .null = null},
                        {.quantity = "ZB-H1, ZB-H2",
                         .measure = Measure::kPoints,
                         .bar = {.largest = 0.5},
                         .null = null},
                        {.quantity = "ZB-1p, ZB-2p",
                         .measure = Measure::kExcess,
                         .bar = {.largest = 0.5},
                         .null = null},
                        {.quantity = "table 8",
                         .measure = Measure::kPoints,
                         .bar = {.largest = 1},
                         .null = null}},
          .cases = bubble_rate_cases};
}

}  // namespace trireme::scoreboard
