// Question: what the planner is asked: a job, machines, and what of the layout is given.
#pragma once

#include <string>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/planner/cost/device_memory.h"
#include "trireme/planner/hardware/hardware.h"
#include "trireme/planner/hardware/practice.h"

namespace trireme::planner {

struct Question {
  config::Job job;  // with model.vocab set, where it has one
  Cluster cluster;
  int gpus = 0;  // 0: all that the cluster has
  // Keys whose values stay as the job has them; what a search chooses are those of `parallel`, `recompute` and `offload`
  // and run.micro_batch.
  std::vector<std::string> kept;
  RuntimeAs as = RuntimeAs::kPlanned;  // as it is printed; `practice` is what is priced
  Practice practice{};
  bool expandable = false;      // segments of the GPU's allocator grow
  config::DatasetFacts data{};  // what is known of the samples

  bool keeps(std::string_view key) const;
};

// Whether a search chooses this key of a job unless it is kept.
bool chosen(std::string_view key);

// Whether ranks are GPUs; else cores, whose memory is the host's.
bool on_gpus(const Cluster& cluster);
std::string devices(const Cluster& cluster, int number);  // "8 GPUs", "2 cores"

// Memory of a rank in bytes for everything, and its need apart from tensors. Few ranks on cores share all of the
// host's.
double memory_of(const Question& question);
MemoryConstants memory_constants(const Question& question);

// Share of memory_of that a run may need without failing (kUsable).
double usable_memory(const Question& question);

// The question checked and completed: what is not kept has its default, precision and device are those of the cluster's
// ranks. Throws Error{kUsage} for no GPUs, more than there are, and keys that nothing chooses.
Question completed(Question question);

// Micro-batch of a job on one data-parallel rank that is always allowed: for losses that compare samples all of the
// batch.
int micro_batch_alone(const config::Job& job);

// The same job on one rank with such a micro-batch, resolved: what does not depend on the layout.
config::Job resolved_alone(const Question& question);

}  // namespace trireme::planner
