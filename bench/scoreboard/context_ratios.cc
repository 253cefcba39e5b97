// What sharing a sequence gains: speedups that are told without seconds.
#include "bench/scoreboard/context_ratios.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "bench/scoreboard/closed_forms.h"
#include "bench/scoreboard/runs.h"
#include "trireme/planner/hardware/cluster_file.h"

namespace trireme::scoreboard {
namespace {

// The number after NAME in "TP8 CP2"; 0 where there is none.
int degree_of(const std::string& method, const std::string& name) {
  const std::size_t at = method.find(name);
  if (at == std::string::npos) return 0;
  const std::size_t begin = at + name.size();
  const auto degree = number_of(method.substr(begin, method.find(' ', begin) - begin));
  return degree ? static_cast<int>(*degree) : 0;
}

// GPU seconds of one block for a sequence of the model of 175B parameters, on Megatron-Core.
double block_cost(const Dimensions& model, int tp, int cp, bool recomputed, bool fp8) {
  static const Cluster kCluster = find_cluster("dgx-h100");
  const PrintedLayout layout{.tp = tp, .sequence_parallel = true, .cp = cp};
  const Practice practice{.dropout = true,
                          .fp8 = fp8,
                          .adds_weight_gradients = false,
                          .ring_homeward = true,
                          .tensor = TensorOverlap::kEverything};
  const Candidate one(
      job_of(model, layout, recomputed ? RecomputePolicy::kFull : RecomputePolicy::kNone, true),
      practice);
  const auto [forward, backward] = one.block_seconds(kCluster);
  return (forward + backward) * tp * cp;
}

// The plot tells neither stages nor batch: what is compared is a block. Without cp all of it runs again on 8 tp ranks, which is the baseline.
Case context_speedup(const Csv& csv, std::size_t row) {
  const std::string &setup = csv.text(row, "setup"), &method = csv.text(row, "method");
  Case one{.row = fmt::format("{}, {}", method, setup),
           .quantity = "speedup by cp",
           .unit = "x",
           .group = setup,
           .measured = csv.need(row, "value"),
           .null = 4.0 / 3,
           .lines = {csv.line(row)}};
  const auto has = [&](const char* word) { return setup.find(word) != std::string::npos; };
  const int tp = degree_of(method, "TP"), cp = degree_of(method, "CP");
  if (tp < 1 || cp < 1)
    one.unscored = "no TP and CP in its method";
  else if (tp == 8 && cp == 1)
    one.unscored = "it is what others are divided by";
  else if (!has("175B-class GPT"))
    one.unscored = "a model of which nothing is known here";
  if (!one.unscored.empty()) return one;
  Dimensions model{
      .layers = 96, .hidden = 12288, .heads = 96, .vocab = 51200, .seq_len = csv.count(row, "seq")};
  if (has("GQA")) {  // a gated layer has as many parameters
    model.llama = true;
    model.kv_heads = std::max(8, tp);
    model.ffn = 4 * model.hidden * 2 / 3;
  }
  const bool fp8 = has("FP8");
  one.forecast = block_cost(model, 8, 1, true, fp8) / block_cost(model, tp, cp, false, fp8);
  return one;
}

Case headline(const Csv& csv, std::size_t row) {
  const std::string& method = csv.text(row, "method");
  Case one{.row = fmt::format("{}: {}", method, csv.text(row, "quantity")),
           .quantity = "headline",
           .unit = "x",
           .measured = csv.need(row, "value"),
           .lines = {csv.line(row)}};
  static const std::map<std::string, std::string> kReasons = {
      {"Llama 3 405B CP16", "a run of llama3_405b_scaling, where its step is forecast"},
      {"DeepSpeed-Ulysses", "neither model nor layout is told"},
      {"Striped Attention vs Ring", "the largest of runs whose layers and blocks are not told"},
      {"DistFlashAttn vs Ring Attention", "sequence and model are not told"}};
  if (method == "DistFlashAttn load balance") {
    one.forecast = helped_ring_speedup(8);
  } else {
    const auto reason = kReasons.find(method);
    one.unscored =
        reason == kReasons.end() ? "a claim of which nothing is known here" : reason->second;
  }
  return one;
}

}  // namespace

std::vector<Case> context_ratio_cases(const Csv& csv) {
  std::vector<Case> all;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const std::string& experiment = csv.text(row, "experiment");
    if (experiment == "Megatron-Core CP speedup") all.push_back(context_speedup(csv, row));
    if (experiment == "headline") all.push_back(headline(csv, row));
  }
  return all;
}

}  // namespace trireme::scoreboard
