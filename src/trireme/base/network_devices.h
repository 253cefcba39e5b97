// This host's network devices, as the kernel describes them.
#pragma once

#include <string>

#include "trireme/base/fs.h"

namespace trireme {

// One line: interfaces that are up, except loopback, with speed and MTU; then the ports of RDMA devices with rate and
// link, and whether GPUs can reach them directly (nvidia_peermem). `root` replaces / in tests.
std::string network_devices(const Path& root = "/");

}  // namespace trireme
