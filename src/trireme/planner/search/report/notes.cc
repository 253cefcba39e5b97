#include <fmt/core.h>

#include "trireme/config/families.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/plan/binary_counter.h"
#include "trireme/plan/simulate/rival.h"
#include "trireme/planner/cost/estimate.h"
#include "trireme/planner/cost/families.h"
#include "trireme/planner/cost/program_kernels.h"
#include "trireme/planner/hardware/machine.h"
#include "trireme/planner/hardware/practice.h"
#include "trireme/planner/search/report/reasons.h"

namespace trireme::planner {
namespace {

// What is assumed of rows that vary.
std::string expected_text(const config::Job& job) {
  if (job.vision.chunked)
    return fmt::format(
        "time is priced at one chunk of chunk.ratio={} tokens in the frozen tower; memory at as "
        "many chunks as tokens",
        job.chunk.ratio);
  const auto note = family_prices(job.model.family).note;
  return note != nullptr ? note(job, ExpectedShare(job)) : "";
}

// Operations of the model for which the runtime on GPUs has no kernels; empty: none.
std::string unfused_operations(const config::Job& job) {
  using What = model::Operation::What;
  bool norms = false, rotations = false;
  for (const std::vector<model::Operation>& node : priced_model(job).operations)
    for (const model::Operation& one : node) {
      norms = norms || one.what == What::kRmsNorm;
      rotations = rotations || one.what == What::kRotation || one.what == What::kSplitRotation;
    }
  if (!rotations) return norms ? "RMS norms" : "";
  return norms ? "RMS norms and rotary positions" : "rotary positions";
}

// What is priced on GPUs otherwise than it runs there, or is not priced.
void add_gpu_notes(const Answer& answer, std::int64_t micro_batches,
                   std::vector<std::string>& notes) {
  const Option& option = answer.options.front();
  const config::Job& job = option.job;
  const Cluster& cluster = answer.question.cluster;
  const int sums =
      plan::most_sums(static_cast<int>(micro_batches), static_cast<int>(config::sum_group(job)));
  if (job.precision.numerics == config::Numerics::kCanonical && sums > 1)
    notes.push_back(
        fmt::format("precision.numerics=canonical keeps up to {} sums of gradients for {} "
                    "micro-batches, where precision.group={} keeps one",
                    sums, micro_batches, micro_batches));
  if (job.precision.compute == DType::kF32 && cluster.gpu.half_flops > cluster.gpu.fp32_flops)
    notes.push_back(
        fmt::format("precision.compute=fp32 has {:.0f} of the {:.0f} TFLOP/s that {} has on a {}",
                    cluster.gpu.fp32_flops / 1e12, cluster.gpu.half_flops / 1e12,
                    cluster.gpu.bf16 ? "bf16" : "fp16", cluster.gpu.name));
  // docs/gpu.md: what computes there.
  const Practice& practice = answer.question.practice;
  if (const std::string some = unfused_operations(job);
      !some.empty() && practice.fusion != Fusion::kEager)
    notes.push_back(
        fmt::format("the forecast prices {} as one kernel each; on GPUs the runtime computes them "
                    "with elementwise operators (docs/gpu.md)",
                    some));
  if (const std::string why = unfused(job); !why.empty())
    notes.push_back(fmt::format(
        "{}: attention on GPUs is not fused then, and priced so: in fp32, its scores in memory "
        "(docs/gpu.md); steps of that kind were not measured: the band is the wider for it",
        why));
  else if (option.layout.cp > 1 && practice.fuses_context)
    notes.push_back(
        "the forecast prices fused attention among cp ranks; on GPUs the runtime computes it in "
        "fp32, its scores in memory (docs/gpu.md)");
  if (job.lora.rank > 0 && job.lora.dropout > 0)
    notes.push_back(
        fmt::format("lora.dropout={}: the noise of adapters is not priced", job.lora.dropout));
  if (job.precision.compute == DType::kF16)
    notes.push_back(
        "precision.compute=fp16: steps whose gradients overflow are skipped; their time and their "
        "tokens are not counted here");
  if (option.layout.world() > 1 && practice.overlaps_reduction)
    notes.push_back(
        "the forecast prices collectives that overlap with computing; on GPUs the runtime's host "
        "waits for each (docs/gpu.md)");
}

}  // namespace

std::vector<std::string> notes(const Answer& answer) {
  const Option& option = answer.options.front();
  const config::Job& job = option.job;
  const Cluster& cluster = answer.question.cluster;
  std::vector<std::string> notes = config::notes(job);
  const std::int64_t micro_batches = config::accumulation(job);
  if (!option.whole)
    notes.push_back(
        fmt::format("the plan has {} micro-batches, which repeat themselves: fewer were proven and "
                    "simulated, and the step's time follows from theirs",
                    micro_batches));
  if (option.whole && option.layout.pp > 1) {
    const std::string rival = simulate::rival_text(
        Candidate(job, answer.question.practice).plan(), [&](const plan::PlanSet& plan) {
          return forecast_on(plan, job, answer.question.practice, cluster).step_s;
        });
    if (!rival.empty()) notes.push_back(rival);
  }
  if (!cluster.gpu.fitted && !cluster.gpu.core)
    notes.push_back(
        fmt::format("nothing was measured on a {}: step times are a guess within its peaks, and "
                    "the band is that "
                    "of such guesses; layouts are compared by it all the same (docs/planner.md)",
                    cluster.gpu.name));
  if (const std::string expected = expected_text(job); !expected.empty()) notes.push_back(expected);
  if (!config::info(job).chain)
    notes.push_back(fmt::format(
        "no constant comes from steps of family {}: its layers are priced as those of language "
        "models, other operations by the bytes that they move; the band is the wider for it",
        config::name(job.model.family)));
  if (!on_gpus(cluster) && job.data.documents)
    notes.push_back(
        "data.documents=true: attention is priced over whole samples; what documents leave out is "
        "not known before they are read");
  if (!on_gpus(cluster) && job.model.dropout > 0)
    notes.push_back(
        fmt::format("model.dropout={}: of noise on cores what it moves is priced, not drawing it",
                    job.model.dropout));
  if (on_gpus(cluster)) add_gpu_notes(answer, micro_batches, notes);
  return notes;
}

}  // namespace trireme::planner
