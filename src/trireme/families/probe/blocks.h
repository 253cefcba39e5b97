// Blocks of attentive probes; families/probe/model.h describes them.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/config/job.h"
#include "trireme/model/blocks/blocks.h"

namespace trireme::blocks {

// Scores of each sample, [samples, classes], and its label, below 0 if it has none.
struct Answers {
  at::Tensor log_probabilities;
  at::Tensor labels;
};
// Answers from scores [rows, classes] and labels int64 [rows]. Rows with label model::kSameSample are further views of
// the sample before them; the probabilities of a sample's views are averaged.
Answers average_views(const at::Tensor& scores, const at::Tensor& labels);

Blocks probe_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks);

}  // namespace trireme::blocks
