// resolve: fills derived values of a job and checks that its numbers fit each other and the world.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/config/job.h"

namespace trireme::config {

// What the job needs to know of its dataset.
struct DatasetFacts {
  std::int64_t vocab = 0;    // token ids are below this; 0: not known
  std::int64_t classes = 0;  // labels are below this; 0: not known, or without
};

// Returns the job with every derived value filled in. Resolving a resolved job changes nothing.
// Throws Error{kUsage} showing the arithmetic and a way out when numbers conflict.
Job resolve(Job job, int world, const DatasetFacts& data);

// Remarks about a resolved job that are no errors, one sentence each.
std::vector<std::string> notes(const Job& job);

// The loss scale of a resolved job in which it is not dynamic; 1 where it is off.
double fixed_loss_scale(const Precision& precision);

// Data-parallel ranks: dp_replicate x dp_shard of a resolved job.
int dp(const Job& job);

// Micro-batches per rank and step: global_batch / (micro_batch x dp).
std::int64_t accumulation(const Job& job);

}  // namespace trireme::config
