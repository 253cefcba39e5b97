// Llamas on FSDP: torchtitan's and IBM's (foundation-model-stack) runs, which print tokens a second.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "bench/scoreboard/fit.h"
#include "bench/scoreboard/money.h"
#include "bench/scoreboard/runs.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/planner/hardware/cluster_file.h"
#include "trireme/planner/hardware/reliability.h"

namespace trireme::scoreboard {
namespace {

bool mentions(const std::string& text, const char* part) { return text.find(part) != text.npos; }

struct Named {
  const char* name;
  Dimensions model;
};
// Llama 2 and 3, Touvron et al. 2023 and Dubey et al. 2024.
const Named kLlamas[] = {
    {"Llama2-13B", {true, 40, 5120, 40, 40, 13824, 32000, 0, false}},
    {"Llama2-34B", {true, 48, 8192, 64, 8, 22016, 32000, 0, false}},
    {"Llama2-70B", {true, 80, 8192, 64, 8, 28672, 32000, 0, false}},
    {"Llama2-7B", {true, 32, 4096, 32, 32, 11008, 32000, 0, false}},
    {"-8B", {true, 32, 4096, 32, 8, 14336, 128256, 0, false}},
    {"-70B", {true, 80, 8192, 64, 8, 28672, 128256, 0, false}},
    {"-405B", {true, 126, 16384, 128, 8, 53248, 128256, 0, false}},
};

// Of a name such as "Llama3.1-8B"; nothing: not known.
std::optional<Dimensions> llama_of(const std::string& name) {
  for (const Named& one : kLlamas)
    if (mentions(name, one.name)) return one.model;
  return std::nullopt;
}

Dimensions of_length(Dimensions model, double sequence) {
  model.seq_len = static_cast<std::int64_t>(sequence);
  return model;
}

// "FSDP 4, CP 2, TP 8, PP 8", which together are the GPUs.
PrintedLayout titan_degrees(const Csv& csv, std::size_t row) {
  PrintedLayout layout;
  int together = 1;
  const std::map<std::string_view, int*> names = {
      {"FSDP", &layout.dp}, {"CP", &layout.cp}, {"TP", &layout.tp}, {"PP", &layout.pp}};
  std::string_view text = csv.text(row, "parallelism");
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    const std::size_t space = part.find(' ');
    const auto name = names.find(part.substr(0, space));
    const auto degree = space == part.npos ? std::nullopt : number_of(part.substr(space + 1));
    if (name == names.end() || !degree || *degree < 1 || *degree > 1e6 ||
        *degree != std::floor(*degree))
      csv.unknown(row, "parallelism");
    *name->second = static_cast<int>(*degree);
    together *= *name->second;
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    while (text.starts_with(' ')) text.remove_prefix(1);
  }
  if (together != csv.count(row, "gpus")) csv.unknown(row, "parallelism");
  return layout;
}

// What torchtitan's forwards leave in memory for backward.
enum class Keeps {
  kAll,
  kOperators,  // attention and every other product; what is cheap runs again
  kAlternate,  // of every other layer all, of the rest the input
  kInputs      // of every layer the input
};

std::optional<Keeps> titan_keeps(const std::string& text) {
  if (text == "full") return Keeps::kInputs;
  if (text == "no" || text == "none") return Keeps::kAll;
  if (text == "selective layer") return Keeps::kAlternate;
  if (text.starts_with("selective") || text.starts_with("per-op")) return Keeps::kOperators;
  return std::nullopt;
}

// Of so many of its blocks, the first ones, the input alone is kept.
void set_recomputed(config::Job& job, double blocks) {
  const auto count = static_cast<std::int64_t>(std::round(blocks));
  if (count >= job.model.layers) {
    job.recompute.policy = RecomputePolicy::kFull;
  } else if (count > 0) {
    job.recompute.policy = RecomputePolicy::kFull;
    job.recompute.nodes = fmt::format("block.[0-{}]", count - 1);
  }
}

constexpr const char* kA100s = "dgx-a100";

const char* titan_cluster(const std::string& hardware) {
  if (mentions(hardware, "H200")) return "dgx-h200";
  if (mentions(hardware, "A100")) return kA100s;
  return "grand-teton";
}

// "async TP", "AsyncTP"
bool hides_tensor(const Csv& csv, std::size_t row) {
  return mentions(csv.text(row, "technique"), "sync");
}

// What a row's step is as a job and a practice. torchtitan pads nothing, reduces gradients in fp32, and has as many
// micro-batches as stages.
void add_titan_setting(const Csv& csv, std::size_t row, const Dimensions& model, Run& run) {
  PrintedLayout layout = titan_degrees(csv, row);
  const int batch = csv.count(row, "local_batch");
  const int micro_batches = layout.pp > 1 ? std::min(layout.pp, batch) : 1;
  if (layout.pp > 1 && mentions(csv.text(row, "technique"), "nterleaved")) layout.chunks = 2;
  layout.zero = 3;
  layout.sequence_parallel = layout.tp > 1;
  layout.micro_batch = static_cast<double>(batch) / micro_batches;
  layout.global_batch = static_cast<double>(batch) * layout.dp;
  const std::string &technique = csv.text(row, "technique"),
                    &precision = csv.text(row, "precision");
  const Keeps keeps = *titan_keeps(csv.text(row, "activation_ckpt"));
  const bool compiled = csv.text(row, "compile") == "1" || mentions(technique, "compile");
  const Practice practice{
      .fusion = compiled ? Fusion::kCompiled : Fusion::kEager,
      .fp8 = precision.starts_with("float8"),
      .adds_weight_gradients = layout.pp > 1,
      .tensor = hides_tensor(csv, row) ? TensorOverlap::kEverything : TensorOverlap::kNothing,
      .stops_early = true,
      .keeps_operators = keeps == Keeps::kOperators};
  config::Job job =
      job_of(of_length(model, csv.need(row, "seq")), layout, RecomputePolicy::kNone, true);
  const auto layers = static_cast<double>(model.layers);
  set_recomputed(job, keeps == Keeps::kAll ? 0 : keeps == Keeps::kAlternate ? layers / 2 : layers);
  run.candidates.emplace_back(config::resolve(std::move(job), run.gpus, {}), practice);
}

// What sets a row apart; nothing of plain ones in bf16.
std::string titan_kind(const Csv& csv, std::size_t row) {
  constexpr double kLong = 8192;
  const std::string& precision = csv.text(row, "precision");
  if (csv.text(row, "table").starts_with("paper")) return "recalled";
  if (hides_tensor(csv, row)) return "asynchronous tp";
  if (precision.ends_with("rowwise")) return "fp8 by rows";
  if (csv.need(row, "seq") > kLong) return "long sequences";
  return precision.starts_with("float8") ? "fp8" : "";
}

Run titan_run(const Csv& csv, std::size_t row) {
  const std::string &table = csv.text(row, "table"), &name = csv.text(row, "model");
  Run run{.row = fmt::format("{} {} {} {} seq {} {}", table, name, csv.text(row, "technique"),
                             csv.text(row, "parallelism"), csv.text(row, "seq"),
                             csv.text(row, "precision")),
          .group = name,
          .lines = {csv.line(row)},
          .cluster = titan_cluster(csv.text(row, "hardware")),
          .gpus = csv.count(row, "gpus")};
  const auto rate = number_of(csv.text(row, "tokens_s_gpu"));
  const auto batch = csv.number(row, "local_batch"), sequence = csv.number(row, "seq");
  const auto model = llama_of(name);
  if (!model || !batch || !sequence || !titan_keeps(csv.text(row, "activation_ckpt")))
    run.unscored = "model, sequence, batch or checkpoints are not known";
  if (!run.unscored.empty()) return run;
  add_titan_setting(csv, row, *model, run);
  if (!rate) {
    run.unscored = "no tokens a second";
    return run;
  }
  run.seconds = *batch * titan_degrees(csv, row).dp * *sequence / (*rate * run.gpus);
  run.apart = titan_kind(csv, row);
  run.held_out = run.cluster == kA100s;  // their curve was there before these runs were looked at
  return run;
}

// IBM's rows say by MFU and HFU how many of their blocks run again: hardware FLOPs have one forward more of these. HSDP shards
// inside a host.
Run fms_run(const Csv& csv, std::size_t row) {
  const std::string &name = csv.text(row, "model"), &gpu = csv.text(row, "gpu");
  Run run{.row = fmt::format("{} {} on {} {}", name, csv.text(row, "sharding"),
                             csv.text(row, "gpus"), gpu),
          .group = name,
          .lines = {csv.line(row)},
          .cluster = gpu.starts_with("A100") ? "fms-a100" : "fms-h100",
          .gpus = csv.count(row, "gpus")};
  const auto model = llama_of(name);
  if (!model) csv.unknown(row, "model");
  if (!gpu.starts_with("A100") && !gpu.starts_with("H100")) csv.unknown(row, "gpu");
  const double batch = csv.need(row, "batch_per_gpu"), sequence = csv.need(row, "seq");
  run.seconds = batch * sequence / csv.need(row, "tokens_s_gpu");
  run.held_out = gpu.starts_with("A100");
  const double recomputed = 3 * (csv.need(row, "hfu") / csv.need(row, "mfu") - 1);
  const PrintedLayout layout{
      .dp = run.gpus, .zero = 3, .micro_batch = batch, .global_batch = batch * run.gpus};
  config::Job job = job_of(of_length(*model, sequence), layout, RecomputePolicy::kNone, false);
  if (csv.text(row, "sharding") == "HSDP") {
    constexpr int kHost = 8;
    job.parallel.dp_shard = kHost;
    job.parallel.dp_replicate = run.gpus / kHost;
  }
  set_recomputed(job, recomputed * static_cast<double>(model->layers));
  const Practice practice{.fusion = csv.flag(row, "compile") ? Fusion::kCompiled : Fusion::kEager,
                          .adds_weight_gradients = false,
                          .stops_early = true};
  run.candidates.emplace_back(config::resolve(std::move(job), run.gpus, {}), practice);
  return run;
}

// A pretraining of which nothing but the model and the GPU is told: FSDP over 1,024 GPUs, eager, a sequence on each; large models
// compute their blocks again, as their activations would not fit.
Run plain_pretraining(const Dimensions& model, const char* cluster, double sequence) {
  constexpr int kGpus = 1024;
  constexpr double kLarge = 30e9;
  Run run{.cluster = cluster, .gpus = kGpus};
  const PrintedLayout layout{.dp = kGpus, .zero = 3, .micro_batch = 1, .global_batch = kGpus};
  const Practice practice{
      .fusion = Fusion::kEager, .adds_weight_gradients = false, .stops_early = true};
  add_setting(run, of_length(model, sequence), layout,
              parameters(model) > kLarge ? RecomputePolicy::kFull : RecomputePolicy::kNone, true,
              practice);
  return run;
}

// Of the time, what is neither lost with a machine nor spent on checkpoints, which are taken to be PyTorch's asynchronous ones.
double useful_share(const Run& run) {
  constexpr double kStall = 6.3;
  const Cluster cluster = find_cluster(run.cluster);
  const Failures failures{.mttf_s = mttf_s(cluster.failures_per_gpu_hour, run.gpus),
                          .restart_s = cluster.restart_s};
  const Checkpointing checkpoint{.stall_s = kStall, .write_s = kStall};
  return goodput(failures, checkpoint, best_interval_s(failures, checkpoint)).useful;
}

}  // namespace

std::optional<double> pretraining_flops(const std::string& model, const std::string& accelerator) {
  const bool second = model.starts_with("Llama-2");
  const char* cluster = accelerator.starts_with("A100")   ? "selene"
                        : accelerator.starts_with("H100") ? "llama3"
                                                          : nullptr;
  const auto shape = llama_of(second ? "Llama2" + model.substr(7) : model);
  if (!model.starts_with("Llama-") || !shape || cluster == nullptr) return std::nullopt;
  const double sequence = second ? 4096 : 8192;
  const Run run = plain_pretraining(*shape, cluster, sequence);
  const double flops =
      6 * parameters(*shape) +
      12 * static_cast<double>(shape->layers * shape->hidden) * sequence;  // of a token
  return useful_share(run) * flops * sequence / estimated(run, clusters_of({run}));
}

std::vector<Run> torchtitan_runs(const Csv& csv) {
  std::vector<Run> runs;
  for (std::size_t row = 0; row < csv.size(); ++row) runs.push_back(titan_run(csv, row));
  return runs;
}

std::vector<Run> fms_runs(const Csv& csv) {
  std::vector<Run> runs;
  for (std::size_t row = 0; row < csv.size(); ++row) runs.push_back(fms_run(csv, row));
  return runs;
}

}  // namespace trireme::scoreboard
