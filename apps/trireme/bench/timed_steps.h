// Steps of a job on this machine, timed by the worker; how fast the machine itself is meanwhile, and what else it does.
#pragma once

#include <vector>

#include "apps/trireme/environment.h"
#include "trireme/base/json.h"
#include "trireme/config/job.h"

namespace trireme::app {

// By rank, as `trireme-worker time-steps` writes it, with pulses of the first `pulsing` ranks. `job` is resolved. Throws
// Error{kPeerLost} if the worker fails.
Json timed_steps(const config::Job& job, const Place& place, int warmup, int steps, int pulsing);

// Duration of steps without disturbances, which only add time: the lower quartile. `seconds` is not empty.
double undisturbed(std::vector<double> seconds);

// CPU seconds since the machine and this program began. They count all programs including a hypervisor's, and this
// program with the finished processes that it started.
struct CpuTime {
  double all = 0;
  double own = 0;
  // Share of `cores` that other programs used during `wall_s` seconds since `before`.
  double others_since(const CpuTime& before, double wall_s, int cores) const;
};
CpuTime cpu_time();

}  // namespace trireme::app
