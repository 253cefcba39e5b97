// Seconds of a step: forecasts of the runs that tables describe, each simulated line by line.
#include <algorithm>
#include <map>

#include "bench/scoreboard/fit.h"
#include "bench/scoreboard/registry.h"
#include "bench/scoreboard/runs.h"
#include "trireme/model/account/flops.h"

namespace trireme::scoreboard {
namespace {

// Operations of a step as the hardware does them: model FLOPs, and the forward once more where everything runs again.
double operations(const Candidate& candidate) {
  const config::Job& job = candidate.job();
  const double tokens = static_cast<double>(job.run.global_batch * job.model.seq_len);
  const bool recomputed =
      job.recompute.policy == RecomputePolicy::kFull && job.recompute.nodes.empty();
  return model::flops_per_token(candidate.model(), job.model, model::FlopsConvention::kNanoGpt) *
         tokens * (recomputed ? 4.0 / 3 : 1);
}

// The stupidest model that still works: one rate of operations, the middle one of the table's runs on the same
// machine in the same precision.
void add_null(const std::vector<Run>& runs, std::vector<Case>& cases) {
  const auto kind = [](const Run& run) {
    return std::pair(run.cluster, run.candidates.front().practice().fp8);
  };
  const auto work = [](const Run& run) {
    return operations(run.candidates.front()) * run.scale / run.gpus;
  };
  std::map<std::pair<std::string, bool>, std::vector<double>> rates;
  for (const Run& run : runs)
    if (run.unscored.empty()) rates[kind(run)].push_back(work(run) / run.seconds);
  for (auto& [name, some] : rates) std::ranges::sort(some);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].unscored.empty()) continue;
    const std::vector<double>& some = rates[kind(runs[i])];
    cases[i].null = work(runs[i]) / some[some.size() / 2];
  }
}

Scorer step_times(std::vector<Run> (*runs_of)(const Csv&)) {
  return [runs_of](const Csv& csv) {
    const std::vector<Run> runs = runs_of(csv);
    const std::vector<Cluster> clusters = clusters_of(runs);
    std::vector<Case> cases;
    for (const Run& run : runs) cases.push_back(step_time_case(run, clusters, simulated));
    if (!runs.empty() && runs.front().timed == Timed::kStep) add_null(runs, cases);
    return cases;
  };
}

Ability step_time(Bar bar, std::string peer, bool ranked = false) {
  return {.quantity = "step time",
          .ranked = ranked,
          .bar = bar,
          .peer = std::move(peer),
          .null = "one rate of operations for each machine and precision"};
}

}  // namespace

std::vector<Table> context_step_time_tables() {
  const auto beside = [](const std::string& what) {  // held to nothing
    return Ability{.quantity = "step time, " + what, .null = step_time({}, "").null};
  };
  return {{.name = "cp_long_context",
           .abilities = {step_time({.mape = 8}, ""), beside("Ring Self-Attention")},
           .cases = step_times(distflash_runs)},
          {.name = "llama3_405b_scaling",
           .abilities = {step_time({.mape = 8}, ""), beside("attention counted")},
           .cases = step_times(llama3_runs)}};
}

std::vector<Table> step_time_tables() {
  // Most are held to nothing.
  const auto apart = [](const std::string& what, const Bar& bar = {}) {
    Ability ability = step_time(bar, "");
    ability.quantity += ", " + what;
    return ability;
  };
  return {
      {.name = "korthikanti_table3_5_e2e",
       .abilities = {step_time({.mape = 4, .largest = 8},
                               "Calculon 3.65, max 8.87 (its calibration)")},
       .cases = step_times(korthikanti_runs)},
      {.name = "korthikanti_table4_layer_times",
       .abilities = {{.quantity = "layer time", .bar = {.largest = 5}}},
       .cases = step_times(korthikanti_layers)},
      {.name = "megatron_sc21_table1",
       .abilities = {step_time({.mape = 4}, "Calculon 10.3")},
       .cases = step_times(sc21_runs)},
      {.name = "megatron_sc21_table2_zero3",
       .abilities = {step_time({.mape = 4}, "Calculon 10.8"), apart("ZeRO-3")},
       .cases = step_times(sc21_zero3_runs)},
      {.name = "megascale",
       .abilities = {step_time({.mape = 4}, "Calculon 6.2"), apart("from MFU")},
       .cases = step_times(megascale_runs)},
      {.name = "bloom_topologies_a100",
       .abilities = {step_time({.mape = 5, .tau = 0.7, .regret = 3}, "Calculon 24.5, scaled 6.35",
                               true)},
       .cases = step_times(bloom_runs)},
      {.name = "mosaicml_fsdp_mpt",
       .abilities = {step_time({.mape = 6}, "llm-analysis 11.8 to 13.2")},
       .cases = step_times(mosaicml_runs)},
      {.name = "torchtitan_llama",
       .abilities = {step_time({.mape = 6}, ""), apart("fp8", {.mape = 6}),
                     apart("asynchronous tp"), apart("fp8 by rows"), apart("long sequences"),
                     apart("recalled")},
       .cases = step_times(torchtitan_runs)},
      {.name = "mfu_history", .abilities = {step_time({}, "")}, .cases = step_times(history_runs)},
      {.name = "bigscience_v100_52B",
       .abilities = {step_time({}, "")},
       .cases = step_times(v100_runs)},
      {.name = "fms_fsdp_llama2",
       .abilities = {step_time({.mape = 6}, "")},
       .cases = step_times(fms_runs)},
      {.name = "megatron_core_h100",
       .abilities = {step_time({.mape = 4}, "Calculon 31.6, max 52.4")},
       .cases = step_times(megatron_core_runs)}};
}

}  // namespace trireme::scoreboard
