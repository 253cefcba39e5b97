#include "trireme/config/saving.h"

namespace trireme::config {

bool saves_behind(const Job& job) {
  return job.checkpoint.async && job.offload.optimizer != OffloadTier::kNvme &&
         job.offload.params != OffloadTier::kNvme;
}

}  // namespace trireme::config
