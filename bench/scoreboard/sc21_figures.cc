// Figures of Megatron-LM's paper of 2021 (arXiv 2104.04473), read off its plots: to within 3 %, so that ratios within a figure
// are compared.
#include <fmt/core.h>

#include <array>
#include <map>

#include "bench/scoreboard/closed_forms.h"
#include "bench/scoreboard/fit.h"
#include "bench/scoreboard/money.h"
#include "bench/scoreboard/registry.h"
#include "bench/scoreboard/runs.h"

namespace trireme::scoreboard {
namespace {

constexpr const char* kRatio = "ratio";

// What a figure's caption and section say of its model and its ranks; what a row says comes on top.
struct Figure {
  const char* name;
  Dimensions model;
  int gpus;
  PrintedLayout layout;
};
// Section 5. Of figure 16's 91B model the paper gives no shape: that of 72 layers as wide as table 1's 76B has as many parameters.
const std::array<Figure, 9> kFigures = {{
    {"fig7", {.layers = 4, .hidden = 4096, .heads = 128}, 1, {}},
    {"fig11", {.layers = 3, .hidden = 20480, .heads = 128}, 8, {.tp = 8}},  // layers of a stage
    {"fig12", {.layers = 96, .hidden = 12288, .heads = 96}, 96, {.tp = 8, .pp = 12}},
    {"fig13", {.layers = 32, .hidden = 20480, .heads = 128}, 64, {}},
    {"fig14", {.layers = 32, .hidden = 3840, .heads = 32}, 64, {}},
    {"fig15", {.layers = 32, .hidden = 3840, .heads = 32}, 64, {}},
    {"fig16", {.layers = 72, .hidden = 10240, .heads = 80}, 64, {.tp = 8, .pp = 8}},
    {"fig17", {.layers = 80, .hidden = 12288, .heads = 96}, 128, {.tp = 8, .pp = 16}},
    {"fig18", {.layers = 96, .hidden = 12288, .heads = 96}, 96, {.tp = 8, .pp = 12, .chunks = 2}},
}};

const Figure* figure_of(const std::string& name) {
  for (const Figure& figure : kFigures)
    if (name == figure.name) return &figure;
  return nullptr;
}

// "(8,4)": both degrees.
std::optional<std::pair<int, int>> degrees_in(const std::string& text) {
  const auto first = number_behind(text, "("), second = number_behind(text, ",");
  if (!first || !second || *first < 1 || *second < 1) return std::nullopt;
  return std::pair(static_cast<int>(*first), static_cast<int>(*second));
}

// What of the row is told in its columns x and series: "batch=60", "mbs=2", "p=8", "(8,4)", "interleaved".
void read(const std::string& figure, const std::string& text, PrintedLayout& layout, int& gpus,
          Dimensions& model) {
  if (const auto batch = number_behind(text, "batch=")) layout.global_batch = *batch;
  if (const auto size = number_behind(text, "mbs=")) layout.micro_batch = *size;
  if (const auto stages = number_behind(text, "p=")) {
    layout.pp = static_cast<int>(*stages);
    gpus *= layout.pp;
    model.layers *= layout.pp;
  }
  if (const auto both = degrees_in(text)) {
    if (figure == "fig13") layout.pp = both->first, layout.tp = both->second;
    if (figure == "fig14") layout.pp = both->first, layout.dp = both->second;
    if (figure == "fig15") layout.tp = both->first, layout.dp = both->second;
  }
  if (text == "interleaved") layout.chunks = 2;
}

Run figure_run(const Csv& csv, std::size_t row) {
  const std::string &name = csv.text(row, "figure"), &x = csv.text(row, "x"),
                    &series = csv.text(row, "series");
  Run run{.row = fmt::format("{} {} {}", name, x, series),
          .group = name,
          .lines = {csv.line(row)},
          .cluster = "selene"};
  const Figure* figure = figure_of(name);
  if (figure == nullptr) {
    run.unscored = "an estimate by the paper's equation 1, of times that it does not print";
    return run;
  }
  Dimensions model = figure->model;
  PrintedLayout layout = figure->layout;
  run.gpus = figure->gpus;
  model.vocab = 51200;
  model.seq_len = 2048;
  for (const std::string& text : {x, series}) read(name, text, layout, run.gpus, model);
  if (layout.tp * layout.pp * layout.dp != run.gpus) csv.unknown(row, "x");
  if (name == "fig7") layout.global_batch = layout.micro_batch;
  const bool kept = series.starts_with("without recompute");
  Practice practice = megatron_2021();
  practice.splits_transfers = series != "unoptimised";
  add_setting(run, model, layout, kept ? RecomputePolicy::kNone : RecomputePolicy::kFull, false,
              practice);
  const GptShape shape{.layers = static_cast<double>(model.layers),
                       .hidden = static_cast<double>(model.hidden),
                       .heads = static_cast<double>(model.heads),
                       .sequence = static_cast<double>(model.seq_len),
                       .vocabulary = static_cast<double>(model.vocab)};
  const double value = csv.need(row, "value");
  const bool sequences = csv.text(row, "setup").ends_with("sequences/s");
  run.seconds = sequences ? layout.global_batch / value
                          : gpt_full_flops(shape, layout.global_batch) / (value * 1e12 * run.gpus);
  return run;
}

// What a run does a second, in the row's unit and by the forecast, in times of its figure's first.
struct Speeds {
  double measured = 0, forecast = 0;
};

std::vector<Case> figure_cases(const Csv& csv) {
  std::vector<Case> all;
  std::map<std::string, Speeds> first;  // of each figure
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const Run run = figure_run(csv, row);
    Case speed{.row = run.row,
               .quantity = "throughput",
               .unit = "of the row",
               .group = run.group,
               .unscored = run.unscored,
               .lines = run.lines};
    if (!run.unscored.empty()) {
      all.push_back(std::move(speed));
      continue;
    }
    speed.measured = csv.need(row, "value");
    speed.forecast = speed.measured * run.seconds / simulated(run, clusters_of({run}));
    const auto [base, is_first] =
        first.try_emplace(run.group, Speeds{speed.measured, speed.forecast});
    if (!is_first) {
      Case ratio = speed;
      ratio.quantity = kRatio;
      ratio.unit = "points";
      ratio.measured = 100 * speed.measured / base->second.measured;
      ratio.forecast = 100 * speed.forecast / base->second.forecast;
      ratio.null = 100;
      all.push_back(std::move(ratio));
    }
    all.push_back(std::move(speed));
  }
  return all;
}

}  // namespace

Table sc21_figures_table() {
  return {.name = "megatron_sc21_figures",
          .abilities = {{.quantity = kRatio,
                         .measure = Measure::kPoints,
                         .bar = {.largest = 5},
                         .null = "as the figure's first row"},
                        {.quantity = "throughput"}},
          .cases = figure_cases};
}

}  // namespace trireme::scoreboard
