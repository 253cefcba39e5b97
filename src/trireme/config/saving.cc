#include "trireme/config/saving.h"

namespace trireme::config {

bool waits_on_disk(const Job& job) {
  return job.offload.optimizer == Tier::kNvme || job.offload.params == Tier::kNvme;
}

bool saves_async(const Job& job) { return job.checkpoint.async && !waits_on_disk(job); }

}  // namespace trireme::config
