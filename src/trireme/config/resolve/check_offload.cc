#include "trireme/config/resolve/check_offload.h"

#include "trireme/base/error.h"

namespace trireme::config {

void check_offload(const Offload& offload) {
  const Offload plain;
  const auto refuse = [](const char* key, const auto& value, const char* why) {
    fail(ErrorKind::kUsage, "offload.{}={}: {}; leave it out", key, value, why);
  };
  if (offload.ratio != plain.ratio && offload.optimizer == OffloadTier::kNone)
    refuse("ratio", offload.ratio, "it is of the optimizer, and offload.optimizer=none");
  const bool moves = offload.uses(OffloadTier::kHost) || offload.uses(OffloadTier::kNvme) ||
                     offload.uses(OffloadTier::kTp);
  if (offload.prefetch != plain.prefetch && !moves)
    refuse("prefetch", offload.prefetch, "nothing is offloaded");
  if (offload.uses(OffloadTier::kNvme)) return;
  if (!offload.path.empty()) refuse("path", offload.path, "nothing is offloaded to nvme");
  if (offload.engine != plain.engine)
    refuse("engine", offload.engine == OffloadEngine::kThreads ? "threads" : "io_uring",
           "nothing is offloaded to nvme");
}

}  // namespace trireme::config
