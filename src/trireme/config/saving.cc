#include "trireme/config/saving.h"

#include "trireme/base/error.h"

namespace trireme::config {
namespace {

bool waits_on_disk(const Offload& offload) {
  return offload.optimizer == Tier::kNvme || offload.params == Tier::kNvme;
}

}  // namespace

bool saves_async(const Job& job) { return job.checkpoint.async && !waits_on_disk(job.offload); }

void check_memory(const Job& job) {
  const Checkpoint& checkpoint = job.checkpoint;
  if (checkpoint.memory_every == 0) return;
  if (waits_on_disk(job.offload))
    fail(ErrorKind::kUsage,
         "checkpoint.memory_every={}: states and parameters that are offloaded to nvme do not fit "
         "in memory; set memory_every=0",
         checkpoint.memory_every);
}

}  // namespace trireme::config
