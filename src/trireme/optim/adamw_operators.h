// AdamW's update by LibTorch's operators, its fused one where this version has it: what a GPU runs.
#pragma once

#include "trireme/optim/adamw.h"

namespace trireme::optim {

// As AdamW::update. Narrow masters and states are widened in segments.
void update_by_operators(const AdamWOptions& options, const at::Tensor& param,
                         const at::Tensor& grad, std::span<at::Tensor> states,
                         std::span<const exec::UpdateSegment> segments,
                         const exec::UpdateArgs& args);

}  // namespace trireme::optim
