#include "trireme/config/resolve/check_offload.h"

#include "trireme/base/error.h"

namespace trireme::config {

void check_offload(const Offload& offload) {
  if (!offload.path.empty() && !offload.uses(Tier::kNvme))
    fail(ErrorKind::kUsage, "offload.path={}: nothing is offloaded to nvme; leave it out",
         offload.path);
}

}  // namespace trireme::config
