// ZeRO, arXiv 1910.02054, table 2, and what the pages of ZeRO-Offload claim: the largest model that fits V100s of 32 GB.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "bench/scoreboard/closed_forms.h"
#include "bench/scoreboard/memory_runs.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::scoreboard {
namespace {

constexpr double kBillion = 1e9, kPrintedDevice = 32e9;
constexpr std::int64_t kVocabulary = 50304;
// The papers do not give it: GPT-2's length, and a batch that keeps a V100 busy.
constexpr std::int64_t kSequence = 1024;
constexpr double kSequences = 4;
constexpr const char* kFormula = "largest model by formula";
constexpr const char* kSearch = "largest model by search";

// The largest model of which at most the whole device is states.
double by_formula(double mp, int stage, double dp) {
  return mp * kPrintedDevice / zero_model_states(1, stage, dp) / kBillion;
}

double by_search(int mp, int zero, int dp, double sequences, Tier states = Tier::kNone) {
  const PrintedLayout layout{
      .tp = mp, .dp = dp, .zero = zero, .micro_batch = sequences, .global_batch = sequences * dp};
  return largest_model(layout, kSequence, device_bytes(32), states) / kBillion;
}

std::vector<Case> largest_models_cases(const Csv& csv) {
  struct Column {
    const char* name;
    int stage;
  };
  std::vector<Case> all;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const double mp = csv.count(row, "mp"), dp = csv.need(row, "gpus") / mp;
    const auto add = [&](const char* quantity, const char* column, double forecast) {
      const std::string& printed = csv.text(row, column);
      const auto measured = csv.number(row, column);
      if (!measured) return;
      all.push_back({.row = fmt::format("mp {} on {}, {}", mp, csv.text(row, "gpus"), column),
                     .quantity = quantity,
                     .unit = "B",
                     .group = quantity,
                     .measured = *measured,
                     .forecast = quantity == kFormula ? as_printed(forecast, printed) : forecast,
                     .lines = {csv.line(row)}});
    };
    for (const auto& [name, stage] : {Column{"theory_baseline_B", 0}, Column{"theory_Pos_B", 1},
                                      Column{"theory_PosG_B", 2}, Column{"theory_PosGP_B", 3}})
      add(kFormula, name, by_formula(mp, stage, dp));
    for (const auto& [name, stage] :
         {Column{"measured_baseline_B", 0}, Column{"measured_Pos_B", 1}})
      add(kSearch, name, by_search(static_cast<int>(mp), stage, static_cast<int>(dp), kSequences));
  }
  return all;
}

// DGX-2: 16 V100 and 1.5 TB of host memory, which holds all states: so many GPUs, a power of two.
double gpus_of_hosts(double parameters) {
  constexpr double kHost = 1.5e12, kGpusOfHost = 16;
  constexpr double kStates = 2 + 2 + 4 + 12;  // weights, gradients, also in fp32, and Adam's
  return kGpusOfHost * std::exp2(std::ceil(std::log2(kStates * parameters / kHost)));
}

// Of layers a fortieth as many as it is wide. How many heads share its width changes nothing of memory.
Dimensions gpt_of_width(std::int64_t hidden, std::int64_t sequence) {
  constexpr double kWidthOfLayer = 40;
  return {.layers = std::max(1L, std::lround(static_cast<double>(hidden) / kWidthOfLayer)),
          .hidden = hidden,
          .heads = 16,
          .vocab = kVocabulary,
          .seq_len = sequence};
}

}  // namespace

double largest_model(const PrintedLayout& layout, std::int64_t sequence, double capacity,
                     Tier states) {
  constexpr std::int64_t kStep = 32, kWidest = 65536 / kStep;
  const auto model = [&](std::int64_t steps) { return gpt_of_width(steps * kStep, sequence); };
  const auto trains = [&](std::int64_t steps) {
    config::Job job = job_of(model(steps), layout, RecomputePolicy::kFull, true);
    job.precision.compute = DType::kF16;
    job.precision.reduce = DType::kBF16;  // as wide
    job.offload.optimizer = job.offload.grads = states;
    job.run.device = config::Device::kCuda;
    return fits(
        fullest(memory_of(config::resolve(std::move(job), layout.tp * layout.dp, {}), false)),
        capacity);
  };
  std::int64_t most = 0, over = 1;
  while (over < kWidest && trains(over)) most = std::exchange(over, 2 * over);
  while (over - most > 1) {
    const std::int64_t middle = (most + over) / 2;
    (trains(middle) ? most : over) = middle;
  }
  return most == 0 ? 0 : parameters(model(most));
}

std::vector<Case> offload_cases(const std::string& system, const std::string& claim,
                                const std::string& value) {
  Case one{.quantity = kOffloadQuantity, .group = system};
  one.row = system + ": " + claim;
  const auto number = number_of(value);
  if (system == "ZeRO-Offload" && claim.find("largest model") != std::string::npos && number) {
    one.unit = "B";
    one.measured = *number;
    one.forecast = by_search(1, 2, 1, 1, Tier::kHost);
    return {one};
  }
  if (claim.starts_with("GPUs to fit 1T / 2T")) {
    const std::size_t slash = value.find(" / ");
    if (slash == std::string::npos) return {};
    const auto first = number_of(value.substr(0, slash)),
               second = number_of(value.substr(slash + 3));
    if (!first || !second) return {};
    one.unit = "GPUs";
    one.measured = *first;
    one.forecast = gpus_of_hosts(1e12);
    Case two = one;
    two.measured = *second;
    two.forecast = gpus_of_hosts(2e12);
    return {one, two};
  }
  return {};
}

Table largest_models_table() {
  return {.name = "zero_table2_max_model",
          .abilities = {{.quantity = kFormula, .bar = {.largest = 1}},
                        {.quantity = kSearch, .bar = {.mape = 15}}},
          .cases = largest_models_cases};
}

}  // namespace trireme::scoreboard
