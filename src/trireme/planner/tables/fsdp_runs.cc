// Runs that only shard over data-parallel ranks, or mostly: llm-foundry, torchtitan, FMS.
#include <fmt/core.h>

#include <cmath>

#include "trireme/base/error.h"
#include "trireme/planner/tables/runs.h"

namespace trireme::planner::tables {

std::vector<Run> mosaicml_runs(const Csv& csv) {
  std::vector<Run> runs;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const auto whole = [&](const char* column) { return static_cast<int>(csv.need(row, column)); };
    const std::string& gpu = csv.text(row, "gpu");
    Run run{.row = fmt::format("{} s {} on {} {} {}", csv.text(row, "model"), csv.text(row, "seq"),
                               csv.text(row, "gpus"), gpu, csv.text(row, "precision")),
            .group = csv.text(row, "model"),
            .lines = {csv.line(row)},
            .cluster = gpu == "h100_80gb"   ? "mosaic-h100"
                       : gpu == "a100_40gb" ? "mosaic-a100-40"
                                            : "mosaic-a100-80",
            .gpus = whole("gpus"),
            .seconds = csv.need(row, "derived_step_time_s")};
    const Dimensions model{.layers = whole("layers"),
                           .hidden = whole("hidden"),
                           .heads = whole("heads"),
                           .vocab = whole("vocab"),
                           .seq_len = whole("seq")};
    const Layout layout{.dp = run.gpus,
                        .zero = csv.text(row, "sharding") == "FULL_SHARD" ? 3 : 2,
                        .micro_batch = csv.need(row, "microbatch"),
                        .global_batch = csv.need(row, "global_batch")};
    const Practice practice{.attention = AttentionKernel::kFlash,
                            .fusion = Fusion::kEager,
                            .fp8 = csv.text(row, "precision") == "amp_fp8"};
    run.candidates.emplace_back(
        job_of(model, layout,
               csv.text(row, "activation_ckpt") == "True" ? Again::kEverything : Again::kNothing,
               false),
        practice);
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace trireme::planner::tables
