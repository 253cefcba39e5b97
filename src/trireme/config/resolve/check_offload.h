// Checks of the job's offload section alone.
#pragma once

#include "trireme/config/job.h"

namespace trireme::config {

// Throws Error{kUsage} naming a key that the others leave without use.
void check_offload(const Offload& offload);

}  // namespace trireme::config
