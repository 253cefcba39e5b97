// Runs that a line of a report tells of: mfu_history, and BigScience's first ones on V100s.
#include <fmt/core.h>

#include <cmath>
#include <optional>

#include "bench/scoreboard/closed_forms.h"
#include "bench/scoreboard/money.h"
#include "bench/scoreboard/runs.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::scoreboard {
namespace {

bool has(const std::string& text, const char* part) { return text.find(part) != text.npos; }

// Multiply-adds counting two, forward and backward, of attention all pairs: as Dao 2023 counts.
double uncausal_flops(const Dimensions& model, double parameters, double tokens) {
  return tokens *
         (6 * parameters + 12.0 * static_cast<double>(model.layers * model.hidden * model.seq_len));
}

// Dao 2023, table 1: GPT-3's smaller models with heads 128 wide on one host. Their batch is not told: as many tokens at once as
// fill a GPU. Without a fused kernel probabilities are computed once more or, where those of one block take a GPU's tenth,
// whole blocks.
void add_flash(const std::string& name, double rate, Run& run) {
  const bool large = has(name, "2.7B");
  const auto sequence = number_behind(name, "seq ");
  if ((!large && !has(name, "1.3B")) || !sequence) {
    run.unscored = "its model or sequence is not told";
    return;
  }
  const Dimensions model{.layers = large ? 32 : 24,
                         .hidden = large ? 2560 : 2048,
                         .heads = large ? 20 : 16,
                         .vocab = 50304,
                         .seq_len = static_cast<std::int64_t>(*sequence)};
  constexpr double kTokens = 16384, kBatch = 512 * 2048;
  const PrintedLayout layout{.dp = 8,
                             .zero = 1,
                             .micro_batch = std::round(kTokens / *sequence),
                             .global_batch = kBatch / *sequence};
  const bool plain = has(name, "without");
  const Practice practice{.attention = plain                           ? AttentionKernel::kUnfused
                                       : has(name, "FlashAttention-2") ? AttentionKernel::kFlash2
                                                                       : AttentionKernel::kFlash,
                          .fusion = Fusion::kKernels,
                          .dropout = true};
  run.gpus = 8;
  run.group = large ? "GPT3-2.7B" : "GPT3-1.3B";
  run.seconds = uncausal_flops(model, large ? 2.65e9 : 1.31e9, kBatch) / (rate * 1e12 * run.gpus);
  const bool vast = *sequence > 4096;
  const RecomputePolicy recompute = !plain ? RecomputePolicy::kNone
                                    : vast ? RecomputePolicy::kFull
                                           : RecomputePolicy::kSelective;
  add_setting(run, model, layout, recompute, false, practice);
}

// Smith et al. 2022: 105 layers, DeepSpeed's pipeline over Megatron-LM's tensor parallelism, one sequence at a time.
void add_mt_nlg(const Csv& csv, std::size_t row, Run& run) {
  const auto gpus = number_behind(csv.text(row, "accelerators"), "");
  const std::string& name = csv.text(row, "model");
  const auto batch = number_behind(name, "batch "), tp = number_behind(name, "TP"),
             pp = number_behind(name, "PP");
  if (!gpus || !batch || !tp || !pp || std::fmod(*gpus, *tp * *pp) != 0) csv.unknown(row, "model");
  run.cluster = "selene";
  run.gpus = static_cast<int>(*gpus);
  run.group = "MT-NLG";
  run.seconds = csv.need(row, "value");
  const Dimensions model{
      .layers = 105, .hidden = 20480, .heads = 128, .vocab = 51200, .seq_len = 2048};
  const PrintedLayout layout{.tp = static_cast<int>(*tp),
                             .pp = static_cast<int>(*pp),
                             .dp = static_cast<int>(*gpus / (*tp * *pp)),
                             .zero = 1,
                             .global_batch = *batch};
  Practice practice = megatron_2021();
  practice.splits_transfers = false;
  add_setting(run, model, layout, RecomputePolicy::kFull, false, practice);
}

// BLOOM's own run: bf16, gradients summed in fp32.
void add_bloom(const Csv& csv, std::size_t row, Run& run) {
  const std::string& name = csv.text(row, "model");
  const auto told = [&](const char* key) {
    const auto number = number_behind(name, key);
    if (!number) csv.unknown(row, "model");
    return *number;
  };
  const Dimensions model{
      .layers = 70, .hidden = 14336, .heads = 112, .vocab = 250880, .seq_len = 2048};
  const PrintedLayout layout{.tp = static_cast<int>(told("TP")),
                             .pp = static_cast<int>(told("PP")),
                             .dp = static_cast<int>(told("DP")),
                             .zero = 1,
                             .micro_batch = told("mbs"),
                             .global_batch = told("gbs")};
  run.cluster = "jean-zay";
  run.gpus = layout.tp * layout.pp * layout.dp;
  run.group = "BLOOM";
  const GptShape shape{
      .layers = 70, .hidden = 14336, .heads = 112, .sequence = 2048, .vocabulary = 250880};
  run.seconds =
      gpt_full_flops(shape, layout.global_batch) / (csv.need(row, "value") * 1e12 * run.gpus);
  Practice practice = megatron_2021();
  practice.splits_transfers = false;
  practice.blocks_launches = true;
  add_setting(run, model, layout, RecomputePolicy::kFull, true, practice, true);
}

Run history_run(const Csv& csv, std::size_t row) {
  const std::string &name = csv.text(row, "model"), &metric = csv.text(row, "metric");
  Run run{.row = fmt::format("{} on {}", name, csv.text(row, "accelerators")),
          .lines = {csv.line(row)},
          .cluster = "dgx-a100"};
  if (name.starts_with("GPT3-"))
    add_flash(name, csv.need(row, "value"), run);
  else if (name.starts_with("MT-NLG"))
    add_mt_nlg(csv, row, run);
  else if (name.starts_with("BLOOM"))
    add_bloom(csv, row, run);
  else if (has(csv.text(row, "accelerators"), "TPU"))
    run.unscored = "a TPU, of which there is no entry";
  else
    run.unscored = "its layout is not told: " + metric;
  return run;
}

// The page gives sizes alone; its scripts are 8192 wide with 32 heads.
Dimensions v100_model(double billions, std::int64_t sequence) {
  constexpr double kBillion = 1e9;
  Dimensions model{.layers = 1, .hidden = 8192, .heads = 32, .vocab = 50304, .seq_len = sequence};
  const auto table = static_cast<double>(model.vocab * model.hidden);
  model.layers = std::llround((billions * kBillion - table) / layer_parameters(model));
  return model;
}

config::Job v100_job(const Csv& csv, std::size_t row, double billions) {
  const std::string &setup = csv.text(row, "setup"), &offload = csv.text(row, "offload");
  const bool shards = !setup.starts_with("3D Megatron");
  const PrintedLayout layout{.tp = csv.count(row, "tp"),
                             .pp = csv.count(row, "pp"),
                             .dp = csv.count(row, "dp"),
                             .zero = shards                         ? 3
                                     : setup.ends_with("DeepSpeed") ? 1
                                                                    : 0,
                             .micro_batch = csv.need(row, "mbs"),
                             .global_batch = csv.need(row, "gbs")};
  config::Job job =
      job_of(v100_model(billions, csv.count(row, "seq")), layout, RecomputePolicy::kFull, true);
  job.precision.compute = DType::kF16;  // a V100 has no bf16
  job.precision.reduce = DType::kBF16;  // as wide
  if (has(offload, "optimizer") || offload == "full") job.offload.optimizer = Tier::kHost;
  if (has(offload, "param") || offload == "full") job.offload.params = Tier::kHost;
  return config::resolve(std::move(job), csv.count(row, "gpus"), {});
}

Run v100_run(const Csv& csv, std::size_t row) {
  const std::string &setup = csv.text(row, "setup"), &size = csv.text(row, "size");
  Run run{.row = fmt::format("{} {} dp{} tp{} pp{}", setup, size, csv.text(row, "dp"),
                             csv.text(row, "tp"), csv.text(row, "pp")),
          .group = setup,
          .lines = {csv.line(row)},
          .cluster = "jean-zay-v100",
          .gpus = csv.count(row, "gpus")};
  const auto seconds = csv.number(row, "sec_per_iter");
  const auto billions = number_behind(size, "");
  if (!seconds || !billions || !csv.number(row, "gbs") || !csv.number(row, "mbs"))
    run.unscored = "no time or batch";
  else if (!setup.starts_with("3D Megatron"))
    run.unscored = "what its framework overlaps, and keeps on the host, is not told";
  if (!billions || !csv.number(row, "gbs") || !csv.number(row, "mbs") ||
      setup.starts_with("ZeRO old branch"))
    return run;
  run.seconds = seconds.value_or(0);
  Practice practice = megatron_2021();
  practice.splits_transfers = false;
  run.candidates.emplace_back(v100_job(csv, row, *billions), practice);
  return run;
}

std::vector<Run> each(const Csv& csv, Run (*run)(const Csv&, std::size_t)) {
  std::vector<Run> runs;
  for (std::size_t row = 0; row < csv.size(); ++row) runs.push_back(run(csv, row));
  return runs;
}

}  // namespace

std::vector<Run> history_runs(const Csv& csv) { return each(csv, history_run); }
std::vector<Run> v100_runs(const Csv& csv) { return each(csv, v100_run); }

}  // namespace trireme::scoreboard
