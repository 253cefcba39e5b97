// Number types.
#include "trireme/base/error.h"
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

}  // namespace

std::vector<Rule> precision_rules() {
  constexpr std::string_view kRounded = "sums rounded to bf16 depend on where they are added",
                             kOther = "another precision.grads";
  return {
      {.id = "types", .fill = resolve_types},
      {"fp64", needs("precision.compute=fp64",
                     {"precision.master=fp64|auto", "precision.grads=fp64|auto"})},
      {"bf16", needs("precision.compute=bf16",
                     {"precision.master=fp32|bf16|auto", "precision.grads=fp32|bf16|auto"})},
      {"fp32", needs("precision.compute=fp32|fp16",
                     {"precision.master=fp32|auto", "precision.grads=fp32|auto"})},
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

}  // namespace trireme::config
