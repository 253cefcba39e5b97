// Collectives among ranks of this machine, timed.
#pragma once

#include <cstdint>
#include <string>

#include "trireme/base/json.h"

namespace trireme::app {

// {"latency_us", "seconds": {VERB: [...]}} of fp32 buffers of 64 KB and each four times the one before, up to `largest`
// bytes; all ranks at once. Processes are this program again.
Json reduce_among_threads(int ranks, std::int64_t largest);
Json reduce_among_processes(const std::string& transport, int ranks, std::int64_t largest);

}  // namespace trireme::app
