// Qi et al. 2023, arXiv 2401.10241, table 4, and tables 6, 7, 10 and 12: throughput and memory.
#include <fmt/core.h>

#include "bench/scoreboard/registry.h"
#include "bench/scoreboard/zero_bubble_runs.h"

namespace trireme::scoreboard {
namespace {

// Runs that are compared with each other: of one table, model and global batch.
std::string cell(const Csv& csv, std::size_t row) {
  return fmt::format("table {}, {}, batch {:g}", csv.text(row, "table"), csv.text(row, "model"),
                     csv.need(row, "microbatch") * csv.need(row, "num_microbatches"));
}

std::vector<ZeroBubbleCase> runs(const Csv& csv) {
  std::vector<ZeroBubbleCase> all;
  for (std::size_t row = 0; row < csv.size(); ++row)
    all.push_back(zero_bubble_case(csv, row, cell(csv, row)));
  return all;
}

std::vector<Case> zero_bubble_run_cases(const Csv& csv) {
  const std::vector<ZeroBubbleCase> all = runs(csv);
  std::vector<Case> result = throughput(all);
  for (const auto& more : {order(all), memory(csv, all)})
    result.insert(result.end(), more.begin(), more.end());
  return result;
}

Table table(std::string name, double throughput_bar) {
  return {.name = std::move(name),
          .abilities = {{.quantity = "throughput",
                         .bar = {.mape = throughput_bar},
                         .null = "the bubble rate alone"},
                        {.quantity = "order of schedules",
                         .measure = Measure::kWrong,
                         .bar = {.mape = 0}},
                        {.quantity = "memory", .bar = {.mape = 6}}},
          .cases = zero_bubble_run_cases,
          .left_out = [](const Csv& csv) { return throughput_left_out(runs(csv)); }};
}

}  // namespace

Table zero_bubble_throughput_table() { return table("zb_table4_throughput_memory", 3); }
Table zero_bubble_more_table() { return table("zb_table6_7_10_12_more", 4); }

}  // namespace trireme::scoreboard
