#include "trireme/config/resolve/check_offload.h"

#include "trireme/base/error.h"

namespace trireme::config {

void check_offload(const Offload& offload) {
  const Offload plain;
  const auto refuse = [](const char* key, const auto& value, const char* why) {
    fail(ErrorKind::kUsage, "offload.{}={}: {}; leave it out", key, value, why);
  };
  if (offload.ratio != plain.ratio && offload.optimizer == Tier::kNone)
    refuse("ratio", offload.ratio, "it applies to the optimizer, but offload.optimizer=none");
  if (offload.uses(Tier::kNvme)) return;
  if (!offload.path.empty()) refuse("path", offload.path, "nothing is offloaded to nvme");
}

}  // namespace trireme::config
