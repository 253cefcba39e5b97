// Memory runs: what rows of published runs report of memory, beside what the plan of their job takes.
#pragma once

#include <string>
#include <vector>

#include "bench/scoreboard/registry.h"
#include "bench/scoreboard/runs.h"
#include "trireme/planner/cost/device_memory.h"

namespace trireme::scoreboard {

// What a row reports of memory.
enum class View {
  kNone,       // only that it ran, or did not
  kAllocator,  // what the allocator held at most, in GiB
  kDevice      // nvidia-smi's, in thousands of MiB
};

// What each list of the plan takes of its GPU by planner::plan_memory, as `trireme plan` counts it: of the job as Trireme runs
// it, whatever system the row is of. Terms of holes and of communicators are those of constants of 1.
using PlanMemory = std::vector<DeviceMemory>;
PlanMemory memory_of(const config::Job& job, bool expandable);
// Of the list that takes most, by needed(); `memory` is not empty.
DeviceMemory fullest(const PlanMemory& memory, const MemoryConstants& constants = {});

struct MemoryRun {
  std::string row;
  std::string group;
  std::size_t line = 0;
  PlanMemory memory{};      // empty: unscored
  double capacity = 0;      // bytes of the device that programs can have
  View view = View::kNone;  // of scored rows alone
  double measured = 0;      // in the unit of the view
  bool ran = true;
  std::string unscored{};  // what the row lacks
};

std::vector<MemoryRun> bloom_memory_runs(const Csv& csv);
std::vector<MemoryRun> bigscience_memory_runs(const Csv& csv);
std::vector<MemoryRun> torchtitan_memory_runs(const Csv& csv);
std::vector<MemoryRun> mosaicml_memory_runs(const Csv& csv);

// "memory" of the runs that report it, with the band that holds 80 of 100.
inline constexpr const char* kMemoryQuantity = "memory";
std::vector<Case> memory_cases(const std::vector<MemoryRun>& runs,
                               const MemoryConstants& constants = {});
// Of runs in nvidia-smi's view, with constants that were fitted on the other groups.
std::vector<Case> memory_left_out(const std::vector<MemoryRun>& runs);

// Of each run whether it fits, 1 or 0: those that ran, and those that did not.
inline constexpr const char* kRanQuantity = "fits, of runs that ran";
inline constexpr const char* kFailedQuantity = "fits, of runs that failed";
std::vector<Case> fits_cases(const std::vector<MemoryRun>& runs);

// `holes` and `communicator` of least mean absolute percentage error over runs in nvidia-smi's view.
MemoryConstants fit_memory(const std::vector<MemoryRun>& runs);

// The largest GPT, in parameters, of layers a fortieth as many as it is wide, that trains in fp16 in `capacity` with blocks
// computed again; 0: none. `states`: where gradients and optimizer states are.
double largest_model(const PrintedLayout& layout, std::int64_t sequence, double capacity,
                     Tier states = Tier::kNone);

// Of a claim about offload that the model can say something about.
inline constexpr const char* kOffloadQuantity = "size";
std::vector<Case> offload_cases(const std::string& system, const std::string& claim,
                                const std::string& value);

// What nvidia-smi shows as the whole of a device that is sold as so many GB, in bytes.
double device_bytes(int gigabytes);

}  // namespace trireme::scoreboard
