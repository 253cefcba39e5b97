// Number types, optimizers and their states.
#include "trireme/config/resolve/matrix_optimizer.h"
#include "trireme/config/rules/rule_lists.h"
#include "trireme/config/rules/templates.h"

namespace trireme::config {
namespace {

void resolve_types(Job& job, const Given&) {
  Precision& precision = job.precision;
  const DType wide = precision.compute == DType::kF64 ? DType::kF64 : DType::kF32;
  precision.master = precision.master.value_or(wide);
  precision.grads = precision.grads.value_or(wide);
  precision.reduce = precision.reduce.value_or(*precision.grads);
  if (precision.loss_scale == "auto")
    precision.loss_scale = precision.compute == DType::kF16 ? "dynamic" : "off";
}

bool has_matrices(const Job& job) { return matrix_optimizer(job.optim) != nullptr; }

// The optimizer of the job or of a group that updates whole matrices.
Rule for_matrices(std::string_view id, std::string_view needed, std::string_view reason) {
  return {id, needs("optim.name,optim.groups", {needed}, reason, "another optimizer"),
          has_matrices};
}

}  // namespace

std::vector<Rule> precision_rules() {
  constexpr std::string_view kRounded = "sums rounded to bf16 depend on where they are added",
                             kOther = "another precision.grads",
                             kCompute = "another precision.compute";
  return {
      {.id = "types", .fill = resolve_types},
      {"fp64", needs("precision.compute=fp64",
                     {"precision.master=fp64|auto", "precision.grads=fp64|auto"}, "", kCompute)},
      {"bf16",
       needs("precision.compute=bf16",
             {"precision.master=fp32|bf16|auto", "precision.grads=fp32|bf16|auto"}, "", kCompute)},
      {"fp32", needs("precision.compute=fp32|fp16",
                     {"precision.master=fp32|auto", "precision.grads=fp32|auto"}, "", kCompute)},
      {"fp64-reduce", needs("precision.grads=fp64", {"precision.reduce=fp64|auto"}, "", kOther)},
      {"bf16-reduce", needs("precision.grads=bf16", {"precision.reduce=bf16|auto"}, "", kOther)},
      {"fp32-reduce",
       needs("precision.grads=fp32", {"precision.reduce=fp32|bf16|auto"}, "", kOther)},
      {"canonical-grads", needs("precision.grads=bf16", {"precision.numerics=fast"}, kRounded)},
      {"canonical-reduce", needs("precision.reduce=bf16", {"precision.numerics=fast"}, kRounded)},
      {"loss-scale", [](const Job& job) { fixed_loss_scale(job.precision); },
       [](const Job& job) { return job.precision.loss_scale != "dynamic"; }},
  };
}

std::vector<Rule> optim_rules() {
  return {
      {"int8-tp", needs("optim.states=int8", {"parallel.tp=1"},
                        "tp ranks hold copies of some parameters in different 8-bit blocks, so "
                        "the copies would drift apart")},
      {"int8-master", needs("optim.states=int8", {"precision.master=fp32|bf16"})},
      {"muon-keys",
       only_with("optim.momentum,optim.newton_schulz,optim.update_scale", "optim.name=muon"),
       [](const Job& job) { return !has_matrices(job); }},
      for_matrices("muon-tp", "parallel.tp=1",
                   "updates of muon need whole matrices, of which tp ranks have parts"),
      for_matrices("muon-states", "optim.states=auto", "its states are of the masters' type"),
      for_matrices("muon-master", "precision.master=fp32|fp64",
                   "products of its updates have sums in fp32 at least"),
      for_matrices("muon-device", "run.device=cpu", "its products are written for the CPU"),
  };
}

}  // namespace trireme::config
