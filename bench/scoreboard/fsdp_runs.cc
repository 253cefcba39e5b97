// Runs that only shard over data-parallel ranks: llm-foundry.
#include <fmt/core.h>

#include <cctype>

#include "bench/scoreboard/runs.h"

namespace trireme::scoreboard {
namespace {

// "H100-80GB" and "h100_80gb" are one name.
std::string plain(const std::string& name) {
  std::string letters;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)))
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return letters;
}

bool in_fp8(const Csv& csv, std::size_t row) {
  const std::string precision = plain(csv.text(row, "precision"));
  if (precision == "ampfp8" || precision == "fp8") return true;
  if (precision == "ampbf16" || precision == "bf16") return false;
  csv.unknown(row, "precision");
}

}  // namespace

const MosaicGpu& mosaic_gpu(const Csv& csv, std::size_t row) {
  static const std::pair<const char*, MosaicGpu> kGpus[] = {{"h10080gb", {"mosaic-h100", 81}},
                                                            {"a10080gb", {"mosaic-a100-80", 80}},
                                                            {"a10040gb", {"mosaic-a100-40", 40}}};
  const std::string name = plain(csv.text(row, "gpu"));
  for (const auto& [known, gpu] : kGpus)
    if (name == known) return gpu;
  csv.unknown(row, "gpu");
}

int mosaic_stage(const Csv& csv, std::size_t row) {
  const std::string& sharding = csv.text(row, "sharding");
  if (sharding == "FULL_SHARD") return 3;
  if (sharding == "SHARD_GRAD_OP") return 2;
  if (sharding == "NO_SHARD") return 0;
  csv.unknown(row, "sharding");
}

std::vector<Run> mosaicml_runs(const Csv& csv) {
  std::vector<Run> runs;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const auto count = [&](const char* column) { return csv.count(row, column); };
    Run run{
        .row = fmt::format("{} s {} on {} {} {}", csv.text(row, "model"), csv.text(row, "seq"),
                           csv.text(row, "gpus"), csv.text(row, "gpu"), csv.text(row, "precision")),
        .group = csv.text(row, "model"),
        .lines = {csv.line(row)},
        .cluster = mosaic_gpu(csv, row).cluster,
        .gpus = count("gpus"),
        .seconds = csv.need(row, "derived_step_time_s")};
    const Dimensions model{.layers = count("layers"),
                           .hidden = count("hidden"),
                           .heads = count("heads"),
                           .vocab = count("vocab"),
                           .seq_len = count("seq")};
    const PrintedLayout layout{.dp = run.gpus,
                               .zero = mosaic_stage(csv, row),
                               .micro_batch = static_cast<double>(count("microbatch")),
                               .global_batch = csv.need(row, "global_batch")};
    // Checkpoints of PyTorch 2.1 stop early. Its rows say "amp_bf16", those of older releases "bf16": one of the former would
    // otherwise compute at 248 TFLOP/s with all that is around its products.
    const Practice practice{.attention = AttentionKernel::kFlash,
                            .fusion = Fusion::kEager,
                            .fp8 = in_fp8(csv, row),
                            .stops_early = csv.text(row, "precision").starts_with("amp")};
    add_setting(run, model, layout,
                csv.flag(row, "activation_ckpt") ? RecomputePolicy::kFull : RecomputePolicy::kNone,
                false, practice);
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace trireme::scoreboard
