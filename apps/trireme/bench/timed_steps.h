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

// What steps take where all that disturbs adds to it: the lower quartile. `seconds` is not empty.
double undisturbed(std::vector<double> seconds);

// Since the machine and this program began, seconds: of all that runs, what a hypervisor takes included, and of this program and
// the processes that it started and saw end.
struct CpuTime {
  double all = 0;
  double own = 0;
  // Of `cores` during `wall_s` seconds since `before`, the part that others had.
  double others_since(const CpuTime& before, double wall_s, int cores) const;
};
CpuTime cpu_time();

}  // namespace trireme::app
