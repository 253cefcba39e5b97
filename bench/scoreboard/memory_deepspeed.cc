// Megatron-DeepSpeed on 384 A100 (BigScience's search for a topology) and on 64 V100.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "bench/scoreboard/memory_runs.h"

namespace trireme::scoreboard {
namespace {

constexpr double kParameters = 1e9;

constexpr double kGpt2Vocabulary = 50304;  // padded to 128

void describe_bloom(const Csv& csv, std::size_t row, MemoryRun& run) {
  const BloomPrecision precision = bloom_precision(csv, row);
  run.model = {.layers = csv.need(row, "layers"),
               .hidden = csv.need(row, "hidden"),
               .heads = csv.need(row, "heads"),
               .vocab = static_cast<double>(bloom_vocabulary(csv, row))};
  run.split = {.tp = csv.count(row, "tp"),
               .pp = csv.count(row, "pp"),
               .dp = csv.count(row, "dp"),
               .embedding_is_layer = precision.embedding_is_layer,
               .sequence = csv.need(row, "seq"),
               .micro_batch = csv.need(row, "mbs")};
  run.split.micro_batches =
      std::max(1, static_cast<int>(csv.need(row, "gbs") / (run.split.micro_batch * run.split.dp)));
  run.practice =
      deepspeed_practice(static_cast<int>(csv.need(row, "zero_stage")), precision.sums_fp32);
}

// The page gives sizes alone; its scripts are 8192 wide with 32 heads.
}  // namespace

Decoder v100_model(double billions) {
  Decoder model{.layers = 1, .hidden = 8192, .heads = 32, .vocab = kGpt2Vocabulary};
  const double table = model.vocab * model.hidden;
  model.layers = std::round((billions * kParameters - table) / model.layer_parameters());
  return model;
}

namespace {

MemoryPractice v100_practice(const std::string& setup, const std::string& offload) {
  MemoryPractice practice = deepspeed_practice(0, false);
  practice.embedding_norm = false;
  if (setup == "3D Megatron") {  // its fp16 optimizer copies gradients once
    practice.step_whole = 4;
    practice.reduce_bucket = 0;
  } else if (setup == "3D Megatron+DeepSpeed") {
    practice = deepspeed_practice(1, false);
    practice.embedding_norm = false;
  } else {
    practice.zero = 3;
    practice.step_whole = 0;
    practice.reduced_copy = 0;
    practice.live_parameters = 1e9;  // the default of stage3_max_live_parameters
    practice.states_on_host = offload.find("optimizer") != std::string::npos || offload == "full";
    practice.weights_on_host = offload.find("param") != std::string::npos || offload == "full";
  }
  return practice;
}

}  // namespace

BloomPrecision bloom_precision(const Csv& csv, std::size_t row) {
  const std::string& precision = csv.text(row, "precision");
  const bool bf16 = precision.starts_with("bf16");
  if (!bf16 && precision != "fp16") csv.unknown(row, "precision");
  return {.sums_fp32 = bf16,
          .embedding_is_layer = precision.find("counted as a layer") != std::string::npos};
}

std::int64_t bloom_vocabulary(const Csv& csv, std::size_t row) {
  if (csv.text(row, "vocab") == "250k") return 250880;
  return csv.count(row, "vocab");
}

MemoryPractice deepspeed_practice(int zero, bool bf16) {
  MemoryPractice practice{.zero = zero,
                          .keeps = Keeps::kInputs,
                          .flash = false,
                          .dropout = true,
                          .embedding_norm = true,
                          .loss = 12,
                          .loss_live = 10};
  if (bf16) {  // BF16_Optimizer: sums in fp32, reduced where they are, and one all-gather of up to 5e9 weights
    practice.gradient_sums = 4;
    practice.gather_bucket = 1e10;
  } else {
    practice.reduce_bucket = 1e9;  // of 5e8 elements, the default of reduce_bucket_size
    // FP16_Optimizer copies every gradient to fp32, then flattens the copies; under ZeRO-1 the own part is flattened in
    // fp16, then copied to fp32.
    practice.step_whole = zero == 0 ? 8 : 0;
    practice.step_own = zero == 0 ? 0 : 6;
  }
  return practice;
}

std::vector<MemoryRun> bloom_memory_runs(const Csv& csv) {
  std::vector<MemoryRun> runs;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    MemoryRun run{
        .row = fmt::format("{} heads {} dp{} tp{} pp{} mbs {} {}", csv.text(row, "size_B"),
                           csv.text(row, "heads"), csv.text(row, "dp"), csv.text(row, "tp"),
                           csv.text(row, "pp"), csv.text(row, "mbs"), csv.text(row, "date")),
        .group = csv.text(row, "section"),
        .line = csv.line(row),
        .capacity = device_bytes(80)};
    run.ran = csv.need(row, "oom") == 0;
    const std::string lacks =
        lacking(csv, row,
                {"layers", "hidden", "heads", "tp", "pp", "dp", "seq", "mbs", "gbs", "zero_stage"});
    if (csv.need(row, "complete") == 0) {
      run.unscored = "no layers or heads";
    } else if (!lacks.empty()) {
      run.unscored = lacks;
    } else {
      describe_bloom(csv, row, run);
      if (const auto memory = csv.number(row, "mem"); memory && run.ran) {
        run.view = View::kDevice;
        run.measured = *memory;
      } else if (run.ran && !csv.number(row, "sec_per_iter")) {
        run.unscored = "no outcome";
      }
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<MemoryRun> bigscience_memory_runs(const Csv& csv) {
  std::vector<MemoryRun> runs;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const std::string &setup = csv.text(row, "setup"), &size = csv.text(row, "size");
    MemoryRun run{.row = fmt::format("{} {} dp{} tp{} pp{} mbs {} {}", setup, size,
                                     csv.text(row, "dp"), csv.text(row, "tp"), csv.text(row, "pp"),
                                     csv.text(row, "mbs"), csv.text(row, "offload")),
                  .group = setup,
                  .line = csv.line(row),
                  .practice = v100_practice(setup, csv.text(row, "offload")),
                  .capacity = device_bytes(32)};
    run.ran = csv.need(row, "oom") == 0;
    run.unscored = lacking(csv, row, {"tp", "pp", "dp", "seq", "mbs"});
    const auto billions = number_of(size.substr(0, size.find('B')));
    if (!billions) run.unscored = "no size";
    if (setup.starts_with("ZeRO old branch"))
      run.unscored = "whether checkpoints waited in host memory is not told";
    else if (setup != "3D Megatron" && setup != "3D Megatron+DeepSpeed" &&
             setup.find("ZeRO") == std::string::npos)
      csv.unknown(row, "setup");
    if (run.unscored.empty()) {
      run.model = v100_model(*billions);
      run.split = {.tp = csv.count(row, "tp"),
                   .pp = csv.count(row, "pp"),
                   .dp = csv.count(row, "dp"),
                   .sequence = csv.need(row, "seq"),
                   .micro_batch = csv.need(row, "mbs")};
      // Without a global batch: enough to fill the pipeline.
      const double batch =
          csv.number(row, "gbs").value_or(run.split.pp * run.split.micro_batch * run.split.dp);
      run.split.micro_batches =
          std::max(1, static_cast<int>(batch / (run.split.micro_batch * run.split.dp)));
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace trireme::scoreboard
