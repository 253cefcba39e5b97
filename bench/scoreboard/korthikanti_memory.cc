// Korthikanti et al. 2022, arXiv 2205.05198, figures 1 and 7: bytes on the first rank, by the paper's own closed forms.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "bench/scoreboard/closed_forms.h"
#include "bench/scoreboard/registry.h"

namespace trireme::scoreboard {
namespace {

// Table 3 of the paper.
struct Setup {
  std::string_view model;
  GptShape gpt;
  double tp, pp, chunks, micro_batch;
};
constexpr std::array<Setup, 4> kSetups = {{
    {"22B", {48, 6144, 64, 2048, 51200}, 8, 1, 1, 4},
    {"175B", {96, 12288, 96, 2048, 51200}, 8, 8, 3, 1},
    {"530B", {105, 20480, 128, 2048, 51200}, 8, 35, 3, 1},
    {"1T", {128, 25600, 160, 2048, 51200}, 8, 64, 1, 1},
}};
constexpr double kGibibyte = 1024.0 * 1024 * 1024;
constexpr double kAdam = 18;  // bytes of a parameter: 2 the weight, 4 the main gradient, 12 Adam's

double block(const Setup& setup, bool sequence_parallel, Kept kept) {
  return block_activations(setup.gpt, setup.micro_batch, setup.tp, sequence_parallel, kept);
}

double activations(const Setup& setup, bool sequence_parallel, Kept kept) {
  return setup.gpt.layers * first_rank_share(setup.pp, setup.chunks) *
         block(setup, sequence_parallel, kept) / kGibibyte;
}

// Figure 1 counts the blocks only.
double states(const Setup& setup) {
  const double h = setup.gpt.hidden;
  return kAdam * 12 * setup.gpt.layers * h * h / (setup.tp * setup.pp) / kGibibyte;
}

struct Bar7 {
  std::string_view name;
  bool sequence_parallel;
  Kept kept;
};
constexpr Bar7 kBars[] = {{"TP baseline", false, Kept::kAll},
                          {"SP only", true, Kept::kAll},
                          {"selective only", false, Kept::kSelective},
                          {"SP + selective", true, Kept::kSelective},
                          {"full recompute", false, Kept::kInput}};

// Fills in forecast, quantity and unit.
void forecast(const Setup& setup, const std::string& what, Case& one) {
  one.unit = "GiB";
  if (what == "params_plus_optimizer_GiB") {
    one.quantity = "states, Fig 1";
    one.forecast = states(setup);
  } else if (what == "activations_GiB_TP_only_no_recompute") {
    one.forecast = activations(setup, false, Kept::kAll);
  } else if (what == "activations_GiB_SP_plus_selective") {
    one.forecast = activations(setup, true, Kept::kSelective);
  } else {
    one.quantity = "activations, Fig 7";
    one.unit = "% of tp";
    one.unscored = "no such bar in the figures";
    for (const Bar7& bar : kBars)
      if (what.ends_with(fmt::format(": {}", bar.name))) {
        one.unscored.clear();
        one.forecast =
            100 * block(setup, bar.sequence_parallel, bar.kept) / block(setup, false, Kept::kAll);
      }
  }
}

std::vector<Case> korthikanti_memory_cases(const Csv& csv) {
  std::vector<Case> all;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const std::string &model = csv.text(row, "model"), &what = csv.text(row, "quantity");
    Case one{.row = model + " " + what,
             .quantity = "activations, Fig 1",
             .group = model,
             .measured = csv.need(row, "value"),
             .lines = {csv.line(row)}};
    const auto setup = std::ranges::find(kSetups, model, &Setup::model);
    if (setup == kSetups.end())
      one.unscored = "table 3 of the paper has no such model";
    else
      forecast(*setup, what, one);
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace

Table korthikanti_memory_table() {
  return {.name = "korthikanti_fig1_fig7_memory",
          .abilities = {{.quantity = "states, Fig 1",
                         .bar = {.largest = 0.01},
                         .peer = "Calculon 8.49, max 10.8"},
                        {.quantity = "activations, Fig 1",
                         .bar = {.largest = 0.01},
                         .peer = "Calculon 2.08, max 8.74"},
                        {.quantity = "activations, Fig 7",
                         .bar = {.largest = 1.105},  // 1.1, as its last digit has it
                         .peer = "Calculon 6.69, max 30.4"}},
          .cases = korthikanti_memory_cases};
}

}  // namespace trireme::scoreboard
