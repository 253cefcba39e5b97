#include "bench/scoreboard/runs.h"

#include <algorithm>
#include <cmath>

#include "trireme/config/resolve/resolve.h"

namespace trireme::scoreboard {
namespace {

// "8,7,7,7,8": nodes of each stage in the order of the model.
std::string stages_text(const Dimensions& model, const PrintedLayout& layout, bool counted) {
  const std::int64_t stages = layout.pp * layout.chunks;
  const std::int64_t shared = counted ? model.layers + 2 : model.layers;
  std::string text;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    std::int64_t nodes = shared / stages + (stage < shared % stages ? 1 : 0);
    if (!counted) nodes += (stage == 0) + (stage == stages - 1);
    text += (text.empty() ? "" : ",") + std::to_string(nodes);
  }
  return text;
}

}  // namespace

double layer_parameters(const Dimensions& model) {
  const auto hidden = static_cast<double>(model.hidden);
  const double kv = model.kv_heads > 0 ? hidden / static_cast<double>(model.heads) *
                                             static_cast<double>(model.kv_heads)
                                       : hidden;
  const double ffn = model.ffn > 0 ? static_cast<double>(model.ffn) : 4 * hidden;
  return 2 * hidden * hidden + 2 * hidden * kv + (model.llama ? 3 : 2) * hidden * ffn;
}

double parameters(const Dimensions& model) {
  return static_cast<double>(model.layers) * layer_parameters(model) +
         (model.tied ? 1 : 2) * static_cast<double>(model.vocab * model.hidden);
}

config::Job job_of(const Dimensions& model, const PrintedLayout& layout, RecomputePolicy recompute,
                   bool fp32_gradients, bool counted) {
  config::Job job;
  job.model = {.family = model.llama ? config::Family::kLlama : config::Family::kGpt,
               .layers = model.layers,
               .hidden = model.hidden,
               .heads = model.heads,
               .kv_heads = model.kv_heads,
               .head_dim = model.head_dim,
               .ffn = model.ffn,
               .vocab = model.vocab,
               .seq_len = model.seq_len,
               .tied = model.tied};
  job.parallel.pp = layout.pp;
  job.parallel.tp = layout.tp;
  job.parallel.cp = layout.cp;
  job.parallel.context = layout.context;
  job.parallel.dp_shard = layout.dp;
  job.parallel.zero = layout.zero;
  job.parallel.sequence_parallel = layout.sequence_parallel;
  if (layout.pp > 1) {
    job.parallel.schedule = layout.chunks > 1 ? "interleaved" : "1f1b";
    job.parallel.virtual_stages = layout.chunks > 1 ? layout.chunks : 0;
    job.parallel.stages = stages_text(model, layout, counted);
  }
  job.precision.compute = DType::kBF16;
  job.precision.master = DType::kF32;
  job.precision.grads = fp32_gradients ? DType::kF32 : DType::kBF16;
  job.precision.numerics = config::Numerics::kFast;
  job.recompute.policy = recompute;
  if (recompute == RecomputePolicy::kSelective) job.recompute.parts = "attention";
  job.run.micro_batch = static_cast<std::int64_t>(layout.micro_batch);
  const double at_once = layout.micro_batch * layout.dp;
  double micro_batches = std::max(1.0, std::round(layout.global_batch / at_once));
  if (layout.chunks > 1)
    micro_batches = std::max(1.0, std::round(micro_batches / layout.pp)) * layout.pp;
  job.run.global_batch = static_cast<std::int64_t>(micro_batches * at_once);
  return config::resolve(std::move(job), layout.tp * layout.pp * layout.cp * layout.dp, {});
}

void add_setting(Run& run, const Dimensions& model, const PrintedLayout& layout,
                 RecomputePolicy recompute, bool fp32_gradients, const Practice& practice,
                 bool counted) {
  run.candidates.emplace_back(job_of(model, layout, recompute, fp32_gradients, counted), practice);
  run.scale =
      layout.global_batch / static_cast<double>(run.candidates.back().job().run.global_batch);
}

}  // namespace trireme::scoreboard
