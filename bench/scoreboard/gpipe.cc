// Huang et al. 2019, arXiv 1811.06965, tables 2 and 3: throughput on K partitions with M micro-batches, as a multiple of
// that on the table's first setting.
#include <fmt/core.h>

#include "bench/scoreboard/closed_forms.h"
#include "bench/scoreboard/registry.h"

namespace trireme::scoreboard {
namespace {

double throughput(double partitions, double micro_batches) {
  return partitions * (1 - one_f_one_b_bubble(partitions, micro_batches));
}

std::vector<Case> gpipe_cases(const Csv& csv) {
  std::vector<Case> all;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const std::string &table = csv.text(row, "table"), &model = csv.text(row, "model");
    const double partitions = csv.count(row, "K"), micro_batches = csv.count(row, "M");
    const bool tpu = table.starts_with("2");
    Case one{
        .row = fmt::format("{} K {:g} M {:g}, table {}", model, partitions, micro_batches, table),
        .quantity = "throughput",
        .unit = "x",
        .group = model,
        .measured = csv.need(row, "value"),
        .lines = {csv.line(row)}};
    if (!model.starts_with("Transformer"))
      one.unscored = "layers of unlike cost, which the paper does not tell";
    else
      one.forecast = throughput(partitions, micro_batches) / throughput(2, tpu ? 1 : 32);
    one.null = partitions / 2;
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace

Table gpipe_table() {
  return {.name = "gpipe_tables",
          .abilities = {{.quantity = "throughput", .bar = {.largest = 10}, .null = "no bubble"}},
          .cases = gpipe_cases};
}

}  // namespace trireme::scoreboard
