// Memory that ranks may need, and what is done about it before training.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/config/job.h"
#include "trireme/job/runs/place.h"
#include "trireme/job/runs/plan_job.h"
#include "trireme/plan/simulate/footprint.h"
#include "trireme/planner/hardware/machine.h"

namespace trireme::runs {

// Every rank's need of the memory that holds its tensors. A process's need in addition to tensors is measured by
// `machine`, else a constant; 0 on a GPU.
std::vector<simulate::Footprint> footprints(const Planned& planned, const Place& place,
                                            const std::optional<planner::Calibration>& machine);

// Forecast need of the ranks of this host, without snapshots that an earlier start has left in memory. The certain part
// follows from the plan alone: parameters, optimizer states, gradients, and what is offloaded to host memory.
struct HostNeed {
  int ranks = 0;
  std::int64_t bytes = 0;    // the most that they hold in a step
  std::int64_t certain = 0;  // of it
};
HostNeed host_need(const Planned& planned, const Place& place,
                   const std::optional<planner::Calibration>& machine);
// "2 ranks of this host need 1.5 GiB by forecast".
std::string text_of(const HostNeed& need);

// Throws Error{kOutOfMemory} if a rank is forecast to need more than run.memory_limit. Without that key it throws if the
// certain part of the need of this host's ranks exceeds the free memory within the limits of control groups. If only
// the forecast exceeds it, returns a line that says so. A GPU's memory is not checked. `root` replaces / in tests.
std::optional<std::string> check_memory(const Planned& planned, const Place& place,
                                        const std::optional<planner::Calibration>& machine,
                                        const Path& root = "/");

// Where snapshots in memory do not fit into the file system of `memory`, on this rank's host: one line that says so.
std::optional<std::string> too_small(const Planned& planned, const Place& place,
                                     const Path& memory);

// The most that tensors of a rank held in steps of the job; nothing if a rank ran out of memory. Throws Error where the steps
// failed otherwise.
using MemoryTrial = std::function<std::optional<std::int64_t>(const Planned& planned)>;

// The job with the largest micro_batch that fits, by forecast and then by `trial`; its run.find_micro_batch is false.
// `say` gets the result of each candidate. Throws Error{kOutOfMemory} if not even the smallest fits.
config::Job with_found_micro_batch(
    config::Job job, const Place& place, const config::DatasetFacts& data,
    const std::optional<planner::Calibration>& machine, const MemoryTrial& trial,
    const std::function<void(std::int64_t micro_batch, const std::string& what)>& say);

}  // namespace trireme::runs
