#include "trireme/planner/practice.h"

#include <fmt/core.h>

#include "trireme/config/head_width.h"

namespace trireme::planner {

std::string unfused(const config::Job& job) {
  constexpr std::int64_t kMostWidth = 256, kWidthStep = 8;  // ops/aten/flash_attention
  const config::Model& model = job.model;
  const DType type = job.precision.compute;
  if (type != DType::kBF16 && type != DType::kF16)
    return fmt::format("precision.compute={}", name(type));
  if (model.dropout > 0) return fmt::format("model.dropout={}", model.dropout);
  if (job.data.documents) return "data.documents=true";
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
