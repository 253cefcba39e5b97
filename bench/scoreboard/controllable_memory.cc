// Qi et al. 2024, arXiv 2405.15362, table 1 and figure 7: what V shapes hold and reach, in times of 1F1B.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "bench/scoreboard/registry.h"
#include "bench/scoreboard/zero_bubble_runs.h"

namespace trireme::scoreboard {
namespace {

namespace schedules = schedules;

struct VShapeModel {
  std::string_view name;
  GptShape gpt;
};
constexpr std::array<VShapeModel, 4> kVShapeModels = {{{"9.6B", {30, 5120, 40, 1024, 0}},
                                                       {"21B", {46, 6144, 48, 1024, 0}},
                                                       {"38.5B", {62, 7168, 64, 1024, 0}},
                                                       {"98.5B", {78, 10240, 80, 1024, 0}}}};

// The number behind "p=" in "9.6B p=16 m=64 mb=2"; 0 without one.
int count(const std::string& setup, const std::string& key) {
  const std::size_t at = setup.find(" " + key + "=");
  return at == std::string::npos ? 0 : std::atoi(setup.c_str() + at + key.size() + 2);
}

// Operations of F, B and W of one layer: section 3 of the zero-bubble paper.
schedules::StageCost work(const GptShape& gpt) {
  const double h = gpt.hidden, s = gpt.sequence;
  return {h * (24 * h + 4 * s), h * (24 * h + 8 * s), 24 * h * h};
}

// Their machines are those of the zero-bubble paper: its 28.3B model's rates, for this model's operations and bytes.
std::optional<ZeroBubbleRun> run_of(const std::string& setup, bool recomputed) {
  const auto model =
      std::ranges::find(kVShapeModels, setup.substr(0, setup.find(' ')), &VShapeModel::name);
  const int ranks = count(setup, "p"), micro_batches = count(setup, "m");
  const int micro_batch = count(setup, "mb");
  if (model == kVShapeModels.end() || ranks < 1 || micro_batches < 1 || micro_batch < 1) return {};
  ZeroBubbleRun run = *zero_bubble_run("28.3B", 32, micro_batch, micro_batches);
  const double layers = (model->gpt.layers + 2) / ranks, longer = layers / run.layers;
  const schedules::StageCost from = work(run.gpt), to = work(model->gpt);
  run.stage.forward *= longer * to.forward / from.forward;
  run.stage.input *= longer * to.input / from.input;
  run.stage.weight *= longer * to.weight / from.weight;
  run.transfer *= model->gpt.hidden / run.gpt.hidden;
  if (recomputed) run.stage.input += run.stage.forward;
  run.gpt = model->gpt;
  run.layers = layers;
  run.ranks = ranks;
  run.kept = 1;  // as the paper counts: from F to the end of W
  return run;
}

double step(const ScheduleForecast& forecast) {
  return forecast.step + kSustainedLoss * forecast.busy;
}

// Peak of the fullest rank per rank of a long pipeline: what a rank more adds.
double asymptotic_memory(const NamedSchedule& schedule) {
  const auto peak = [&](int ranks) {
    const schedules::ScheduleShape shape{.ranks = ranks,
                                         .chunks = schedules::chunks_of(schedule.schedule, 0),
                                         .micro_batches = 2 * ranks};
    return std::ranges::max(
        schedules::peak_activations(schedules::make_grid(schedule.schedule, shape)));
  };
  return (peak(24) - peak(12)) / 12;
}

// "M/3" of "M": a third.
std::optional<double> share(const std::string& text) {
  if (text == "M") return 1;
  if (!text.starts_with("M/")) return {};
  const auto divisor = number_of(text.substr(2));
  if (!divisor || *divisor <= 0) return {};
  return 1 / *divisor;
}

Case asymptotic(const Csv& csv, std::size_t row) {
  const auto measured = share(csv.text(row, "value"));
  const auto schedule = named_schedule(csv.text(row, "schedule"));
  Case one{.row = csv.text(row, "schedule") + " of a long pipeline",
           .quantity = "memory, table 1",
           .unit = "of 1F1B"};
  if (!measured || !schedule)
    one.unscored = schedule ? "no share of M" : "no such schedule";
  else
    one.measured = *measured, one.forecast = asymptotic_memory(*schedule);
  return one;
}

// Model FLOPs of a step over what its ranks could do in it, in percent; with the vocabulary that Megatron-LM pads GPT-2's to.
double mfu(const ZeroBubbleRun& run, const ScheduleForecast& forecast) {
  constexpr double kPeak = 312e12, kVocabulary = 50304;
  GptShape gpt = run.gpt;
  gpt.vocabulary = kVocabulary;
  const double flops = gpt_model_flops(gpt, run.micro_batch * run.micro_batches);
  return 100 * flops / (1e-3 * step(forecast) * run.ranks * kPeak);
}

double kept_gigabytes(const ZeroBubbleRun& run, const ScheduleForecast& forecast) {
  return 1e-9 * forecast.memory * block_activations(run.gpt, run.micro_batch, 1, false, Kept::kAll);
}

// The 1F1B row of the same item and setup.
std::optional<std::size_t> beside(const Csv& csv, std::size_t row) {
  for (std::size_t other = 0; other < csv.size(); ++other)
    if (csv.text(other, "schedule") == "1F1B" && csv.text(other, "item") == csv.text(row, "item") &&
        csv.text(other, "setup") == csv.text(row, "setup"))
      return other;
  return {};
}

// In times of 1F1B where its row is there, as their machines were slower than those of the profile.
double beside_1f1b(const Csv& csv, std::size_t row, double ours) {
  const auto base = beside(csv, row);
  if (!base) return ours;
  const auto plain = run_of(csv.text(row, "setup"), false);
  return ours * csv.need(*base, "value") /
         mfu(*plain, run_schedule(*plain, {schedules::Schedule::k1F1B}, Transfers::kBlocking));
}

Case figure_7(const Csv& csv, std::size_t row, bool memory) {
  const std::string &setup = csv.text(row, "setup"), &name = csv.text(row, "schedule");
  Case one{.row = name + " " + setup,
           .quantity = memory ? "memory, Fig 7" : "MFU, Fig 7",
           .unit = memory ? "GB" : "points",
           .group = setup.substr(0, setup.find(' ')),
           .measured = csv.need(row, "value")};
  const bool recomputed = name.ends_with("-R");
  const auto schedule = named_schedule(recomputed ? name.substr(0, name.size() - 2) : name);
  const auto run = run_of(setup, recomputed);
  one.unscored = why_not(run, schedule);
  if (memory && recomputed) one.unscored = "read off a plot as 4 GB to within 1 GB";
  if (!memory && beside(csv, row) == row) one.unscored = "what the others are compared with";
  if (!one.unscored.empty()) return one;
  const ScheduleForecast ours = run_schedule(*run, *schedule, Transfers::kBlocking);
  one.forecast = memory ? kept_gigabytes(*run, ours) : beside_1f1b(csv, row, mfu(*run, ours));
  return one;
}

std::vector<Case> v_shape_cases(const Csv& csv) {
  std::vector<Case> all;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const std::string& item = csv.text(row, "item");
    Case one;
    if (item.starts_with("Table1")) {
      one = asymptotic(csv, row);
    } else if (item.starts_with("Fig7")) {
      one = figure_7(csv, row, item.find("memory") != std::string::npos);
    } else {
      one = {.row = csv.text(row, "schedule") + " " + csv.text(row, "setup"),
             .quantity = "MFU, Fig 7",
             .unit = "points",
             .unscored = "the best of a search over tp and micro-batch whose choices are not told"};
    }
    one.lines = {csv.line(row)};
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace

Table controllable_memory_table() {
  return {
      .name = "controllable_memory_pp",
      .abilities = {{.quantity = "memory, table 1", .bar = {.largest = 0.01}},
                    {.quantity = "memory, Fig 7", .bar = {.largest = 5}},
                    {.quantity = "MFU, Fig 7", .measure = Measure::kPoints, .bar = {.largest = 2}}},
      .cases = v_shape_cases};
}

}  // namespace trireme::scoreboard
