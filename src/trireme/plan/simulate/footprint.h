// Memory need of a plan on every rank, drawn and compared with the available memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/plan.h"

namespace trireme::simulate {

// Memory of ranks that run one list.
struct Footprint {
  std::vector<int> ranks;
  plan::MemoryAccount account;  // of their tensors, in a step
  std::int64_t library = 0;     // a rank's share of what its process holds besides
  bool measured = false;        // `library` is of this machine, not a constant
  std::int64_t samples = 0;     // that were read ahead of the next step
  std::int64_t snapshot =
      0;                  // what checkpoints are copied to before they are written, in host memory
  std::int64_t kept = 0;  // a rank's share of the snapshots that its host keeps in memory, as files
  // Peak of the tensors with the expected number of rows, as `account` has it; 0: no rows vary.
  std::int64_t expected_peak = 0;
  bool host = true;  // what waits in host memory counts: the tensors are there as well

  std::int64_t needed() const { return account.peak_of_tensors() + outside_tensors(); }
  std::int64_t expected() const { return expected_peak + outside_tensors(); }
  std::int64_t outside_tensors() const {
    return library + samples + snapshot + kept +
           (host ? account.peak_total - account.peak_of_tensors() : 0);
  }
};

// By list, without snapshots and copies for them; `library` and `host` as above.
std::vector<Footprint> footprints(const plan::PlanSet& plan, std::int64_t library,
                                  bool host = true);

// For each list a table of kinds (between steps, at their largest, when all together are largest) and a line that
// draws the step.
std::string footprint_text(const plan::PlanSet& plan, const std::vector<Footprint>& lists);
Json footprint_json(const plan::PlanSet& plan, const std::vector<Footprint>& lists);

// "1.2 GiB" or, where rows vary, "at most 1.2 GiB (0.9 GiB expected)".
std::string needed_text(const Footprint& one);

const Footprint& largest(const std::vector<Footprint>& lists);

// Nothing if every rank needs at most `allowed` bytes. Else one line: the rank with the largest need, its need, the
// allowed bytes, the largest kind, and a remedy.
std::optional<std::string> misfit(const plan::PlanSet& plan, const std::vector<Footprint>& lists,
                                  std::int64_t allowed);

}  // namespace trireme::simulate
