#include "trireme/planner/hardware/practice.h"

#include <fmt/core.h>

#include "trireme/config/head_width.h"
#include "trireme/config/layer_attention.h"

namespace trireme::planner {

Practice practice_of(RuntimeAs runtime) {
  if (runtime == RuntimeAs::kPlanned) return {.overlaps_gathers = true};
  return {.fusion = Fusion::kEager,
          .overlaps_reduction = false,
          .overlaps_shards = false,
          .overlaps_context = false,
          .fuses_context = false,
          .overlaps_transfers = false};
}

std::string describe(RuntimeAs runtime, bool gpus) {
  if (!gpus) return "today's, on CPU cores";
  return runtime == RuntimeAs::kToday
             ? "today's: collectives wait, operators are not fused; no GPU has run it. --as "
               "planned: "
               "what is to come"
             : "planned: with overlap and fused kernels that do not exist yet; no GPU has run it";
}

std::string unfused(const config::Job& job) {
  constexpr std::int64_t kMostWidth = 256, kWidthStep = 8;  // ops/aten/flash_attention
  const config::Model& model = job.model;
  const DType type = job.precision.compute;
  if (type != DType::kBF16 && type != DType::kF16)
    return fmt::format("precision.compute={}", name(type));
  if (model.dropout > 0) return fmt::format("model.dropout={}", model.dropout);
  if (job.llama.attention_cap > 0)
    return fmt::format("llama.attention_cap={}", job.llama.attention_cap);
  if (job.data.documents) return "data.documents=true";
  for (const config::LayerAttention& layer : config::layer_attention(model))
    if (layer.window > 0 && layer.window < model.seq_len)
      return fmt::format("model.attention_layers={}", model.attention_layers);
  const std::int64_t width = config::head_width(model);
  if (width % kWidthStep != 0 || width > kMostWidth) return fmt::format("heads {} wide", width);
  return "";
}

Practice asked(Practice practice, const config::Job& job, bool gpus) {
  practice.dropout = practice.dropout || job.model.dropout > 0;
  if (gpus && practice.attention != AttentionKernel::kUnfused && !unfused(job).empty())
    practice.attention = AttentionKernel::kRows;
  return practice;
}

}  // namespace trireme::planner
