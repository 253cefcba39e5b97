// Runs whose ranks share a sequence: DistFlashAttn's comparisons (Li et al. 2023, arXiv 2310.03294, tables 1, 3 and 4).
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "bench/scoreboard/runs.h"

namespace trireme::scoreboard {
namespace {

// LLaMA-7B, with 8 heads of keys and values, or with 33 heads of 128 channels.
Dimensions llama_7b(const Csv& csv, std::size_t row) {
  Dimensions model{.llama = true,
                   .layers = 32,
                   .hidden = 4096,
                   .heads = 32,
                   .kv_heads = 32,
                   .ffn = 11008,
                   .vocab = 32000,
                   .seq_len = csv.count(row, "seq"),
                   .tied = false,
                   .head_dim = 128};
  const std::string& setup = csv.text(row, "setup");
  if (setup.ends_with(" LLaMA-GQA")) {
    model.kv_heads = 8;
  } else if (setup.ends_with(" LLaMA-33H")) {
    model.hidden = 33 * 128;
    model.heads = model.kv_heads = 33;
  } else if (!setup.ends_with(" LLaMA-7B")) {
    csv.unknown(row, "setup");
  }
  return model;
}

// Ranks that have heads each need as many of everybody: the model gets more, of keys and values copies.
void share_heads(Dimensions& model, std::int64_t ranks) {
  const auto up = [&](std::int64_t heads) { return (heads + ranks - 1) / ranks * ranks; };
  model.heads = up(model.heads);
  model.kv_heads = up(model.kv_heads);
}

struct System {
  const char* method;
  bool heads;  // whether ranks have heads each
  bool
      tensor;  // of tensor parallelism and sequence parallelism; else of a sequence, with shards of states
  config::ContextMethod context;
  Practice practice;
};

// Blocks run again in all of them, one sequence is the batch.
const std::array<System, 4>& systems() {
  using config::ContextMethod;
  static const std::array<System, 4> kSystems = {{
      {"Megatron-LM (TP+SP)",
       true,
       true,
       ContextMethod::kRing,
       {.fusion = Fusion::kEager,
        .adds_weight_gradients = false,
        .tensor = TensorOverlap::kBackward}},
      {"DistFlashAttn",
       false,
       false,
       ContextMethod::kRing,
       {.fusion = Fusion::kEager,
        .adds_weight_gradients = false,
        .ring_helped = true,
        .keeps_attention = true}},
      {"DeepSpeed-Ulysses",
       true,
       false,
       ContextMethod::kUlysses,
       {.fusion = Fusion::kEager, .adds_weight_gradients = false}},
      {"Ring Self-Attention",
       false,
       false,
       ContextMethod::kRing,
       {.attention = AttentionKernel::kUnfused,
        .fusion = Fusion::kEager,
        .adds_weight_gradients = false,
        .overlaps_context = false}},
  }};
  return kSystems;
}

}  // namespace

std::vector<Run> distflash_runs(const Csv& csv) {
  std::vector<Run> runs;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const std::string &experiment = csv.text(row, "experiment"), &method = csv.text(row, "method");
    if (!experiment.starts_with("DistFlashAttn Table")) continue;
    Run run{.row = fmt::format("{}, {}", method, csv.text(row, "setup")),
            .group = csv.text(row, "setup"),
            .lines = {csv.line(row)},
            .cluster = "distflash"};
    const auto system = std::ranges::find(systems(), method, &System::method);
    const auto seconds = csv.number(row, "value");
    if (system == systems().end())
      run.unscored = "a system of which nothing is known here";
    else if (!seconds)
      run.unscored = "no time";
    if (run.unscored.empty()) {
      run.gpus = csv.count(row, "gpus");
      run.seconds = *seconds;
      if (system->practice.attention == AttentionKernel::kUnfused) run.apart = method;
      Dimensions model = llama_7b(csv, row);
      if (system->heads) share_heads(model, run.gpus);
      const PrintedLayout layout{.tp = system->tensor ? run.gpus : 1,
                                 .zero = system->tensor ? 0 : 3,
                                 .sequence_parallel = system->tensor,
                                 .cp = system->tensor ? 1 : run.gpus,
                                 .context = system->context};
      add_setting(run, model, layout, RecomputePolicy::kFull, false, system->practice);
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

// Llama 3 405B (arXiv 2407.21783, section 3.3): keys and values are gathered, stages are interleaved, nothing is computed again, and
// shards are not given up between forward and backward. Exchanges of tp ranks are taken to hide behind products, as Megatron-Core's.
std::vector<Run> llama3_runs(const Csv& csv) {
  constexpr Dimensions kModel{.llama = true,
                              .layers = 126,
                              .hidden = 16384,
                              .heads = 128,
                              .kv_heads = 8,
                              .ffn = 53248,
                              .vocab = 128256,
                              .tied = false};
  constexpr double kPerToken = 6 * 405e9;  // operations, without attention
  std::vector<Run> runs;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const auto count = [&](const char* column) { return csv.count(row, column); };
    Run run{.row = fmt::format("s {} on {} GPUs", csv.text(row, "seq"), csv.text(row, "gpus")),
            .group = csv.text(row, "seq"),
            .lines = {csv.line(row)},
            .cluster = "llama3",
            .gpus = count("gpus"),
            .seconds = csv.need(row, "derived_step_time_s")};
    if (!csv.text(row, "model").starts_with("Llama3 405B")) csv.unknown(row, "model");
    Dimensions model = kModel;
    model.seq_len = count("seq");
    // The table's seconds leave attention's operations out, which are as good as none at 8K. A longer row's are those of its rate with
    // attention, of the half that is not masked; the paper does not say how it counts.
    const auto attention = 6.0 * static_cast<double>(model.layers * model.hidden * model.seq_len);
    if (attention > 0.1 * kPerToken) {
      run.apart = "attention counted";
      run.seconds = (kPerToken + attention) * csv.need(row, "batch_per_dp") * count("dp") *
                    static_cast<double>(model.seq_len) /
                    (csv.need(row, "tflops_per_gpu") * 1e12 * run.gpus);
    }
    const Practice practice{.adds_weight_gradients = false,
                            .overlaps_gathers = true,
                            .tensor = TensorOverlap::kEverything};
    for (const int chunks : {1, 2, 4, 8}) {
      const PrintedLayout layout{.tp = count("tp"),
                                 .pp = count("pp"),
                                 .chunks = chunks,
                                 .dp = count("dp"),
                                 .zero = 1,
                                 .sequence_parallel = true,
                                 .global_batch = csv.need(row, "batch_per_dp") * count("dp"),
                                 .cp = count("cp"),
                                 .context = config::ContextMethod::kAllGather};
      add_setting(run, model, layout, RecomputePolicy::kNone, true, practice, true);
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace trireme::scoreboard
