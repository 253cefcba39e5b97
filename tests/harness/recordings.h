// Recordings of small jobs under any layout.
#pragma once

#include <sstream>
#include <string>

#include "trireme/config/resolve/resolve.h"
#include "trireme/config/synthetic.h"
#include "trireme/train/recording/recording.h"
#include "trireme/train/run/samples.h"

namespace trireme::harness {

inline config::Job tiny_job(config::Family family, DType compute) {
  config::Job job =
      config::load_job(Path(TRIREME_SOURCE_DIR) / "recipes" /
                       (family == config::Family::kGpt ? "gpt_tiny.yaml" : "llama_tiny.yaml"));
  job.model.vocab = 256;
  job.precision.compute = compute;
  job.run.global_batch = 4;
  job.optim.warmup_steps = 0;
  job.parallel.dp_shard = 1;
  if (family == config::Family::kGpt) job.model.dropout = 0.1;
  return job;
}

// The job under "tp=2,run.micro_batch=2", resolved.
inline config::Job laid_out(config::Job job, const std::string& layout) {
  std::istringstream items(layout);
  for (std::string item; std::getline(items, item, ',');)
    config::apply_set(job, item.find('.') == std::string::npos ? "parallel." + item : item);
  const config::Parallel& p = job.parallel;
  const config::SyntheticSource* source = config::synthetic_source(job.data.source);
  return config::resolve(job, p.pp * p.dp_replicate * p.dp_shard * p.cp * p.tp,
                         source != nullptr ? source->facts : config::DatasetFacts{});
}

// Some steps on random tokens, or on what the job's source makes up.
inline train::Recording record_layout(const config::Job& job, const std::string& layout,
                                      int steps = 2) {
  const config::Job resolved = laid_out(job, layout);
  return train::record(resolved, steps, train::load_of(resolved, resolved.run.micro_batch));
}

}  // namespace trireme::harness
