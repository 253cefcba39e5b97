// resolve: fills derived values of a job and checks that its numbers fit each other and the world.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "trireme/config/job.h"

namespace trireme::config {

// Facts about a dataset that a job needs.
struct DatasetFacts {
  std::int64_t vocab = 0;    // token ids are below this; 0: not known
  std::int64_t classes = 0;  // labels are below this; 0: not known, or without
  // Of the tokenizer: an image's place and the end of a text; -1: not known, or without.
  std::array<std::int64_t, 2> tokens = {-1, -1};
};

// Returns the job with every derived value filled in. Resolving a resolved job changes nothing.
// Throws Error{kUsage} showing the arithmetic and a way out when numbers conflict.
Job resolve(Job job, int world, const DatasetFacts& data);

// Leaves out what training does for its layout and memory, for a model that one rank asks or evaluates: sections parallel,
// recompute, offload and network, a budget, and features that are kept on disk.
void keep_one_rank(Job& job);

// Remarks about a resolved job that are no errors, one sentence each.
std::vector<std::string> notes(const Job& job);

// Settles precision.compute=auto: by run.device, and on CPUs by what this machine multiplies with.
void choose_compute(Job& job);

// The loss scale of a resolved job in which it is not dynamic; 1 where it is off.
double fixed_loss_scale(const Precision& precision);

// Data-parallel ranks: dp_replicate x dp_shard of a resolved job.
int dp(const Job& job);

// Micro-batches per rank and step: global_batch / (micro_batch x dp).
std::int64_t accumulation(const Job& job);

// Groups of micro-batches in a global batch that precision.group=0 leaves at most.
inline constexpr std::int64_t kSumGroups = 64;

// Micro-batches that canonical sums add in a row on ranks that have `on_rank` each of `all` in a global batch:
// precision.group if set. Else the least power of two that leaves at most kSumGroups groups, as far as ranks have
// multiples of it. It depends on the global batch, so layouts with enough micro-batches a rank have the same. Fast sums
// have 1.
std::int64_t sum_group(const Precision& precision, std::int64_t all, std::int64_t on_rank);
// The same for a resolved job.
std::int64_t sum_group(const Job& job);

}  // namespace trireme::config
