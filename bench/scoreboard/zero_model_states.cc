// ZeRO, arXiv 1910.02054, table 1: bytes of model states, in decimal GB as printed.
#include <fmt/core.h>

#include "bench/scoreboard/closed_forms.h"
#include "bench/scoreboard/registry.h"

namespace trireme::scoreboard {
namespace {

std::vector<Case> model_state_cases(const Csv& csv) {
  std::vector<Case> all;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const double billions = csv.need(row, "params_B"), ranks = csv.need(row, "dp_degree");
    const double stage = csv.need(row, "zero_stage");
    const std::string& printed = csv.text(row, "mem_GB_per_device");
    Case one{.row = fmt::format("{} ZeRO-{:g} on {:g}", csv.text(row, "model"), stage, ranks),
             .quantity = "model states",
             .unit = "GB",
             .group = csv.text(row, "model"),
             .measured = csv.need(row, "mem_GB_per_device"),
             .lines = {csv.line(row)}};
    if ((stage != 0 && stage != 1 && stage != 2 && stage != 3) || ranks < 1)
      one.unscored = "no such stage of ZeRO, or no ranks";
    else
      one.forecast =
          as_printed(zero_model_states(billions, static_cast<int>(stage), ranks), printed);
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace

Table zero_model_states_table() {
  return {.name = "zero_table1_model_state_memory",
          .abilities = {{.quantity = "model states",
                         .bar = {.largest = 0.5},
                         .peer = "formula 0.3 (printed digits)"}},
          .cases = model_state_cases};
}

}  // namespace trireme::scoreboard
