// AwaySpace: storage outside memory for shards of a rank's units and for its values.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "trireme/base/scratch/scratch.h"
#include "trireme/plan/offload.h"

namespace trireme::exec {

// Makes a tier's space, host or nvme.
using OpenScratch = std::function<std::unique_ptr<scratch::Scratch>(plan::Tier tier)>;
// Host memory; refuses nvme, for which somebody has to say where.
std::unique_ptr<scratch::Scratch> open_host_memory(plan::Tier tier);

struct UnitExtents {
  std::vector<scratch::Extent> states;  // a second copy of the weights, then the states
  scratch::Extent params;
  scratch::Extent gradient;                          // the step's sum
  std::vector<std::vector<scratch::Extent>> levels;  // by chunk: sums over some micro-batches
};

class AwaySpace {
 public:
  // Takes all the space that the rank's list needs, at once: a full disk is found before the first step. The plan must
  // outlive this.
  AwaySpace(const plan::PlanSet& plan, int rank, const OpenScratch& open);

  bool away(plan::UnitId unit, plan::TensorKind tensors) const { return away_(unit, tensors); }
  const UnitExtents& unit(plan::UnitId unit) const { return units_[unit]; }
  scratch::Scratch& of(plan::TensorKind tensors) const;
  scratch::Extent value(plan::ValueId value, int mb) const;
  scratch::Scratch& of_values() const;

  // In host memory, in whole pages of each extent.
  std::int64_t host_bytes() const { return host_bytes_; }
  // How each tier works, "nvme: io_uring, O_DIRECT".
  std::vector<std::string> describe() const;
  // Bytes moved since the beginning.
  std::map<plan::Tier, scratch::Traffic> traffic() const;

 private:
  scratch::Scratch& at(plan::Tier tier) const;
  scratch::Extent reserve(plan::Tier tier, std::int64_t bytes);

  const plan::PlanSet& plan_;
  plan::Away away_;
  std::map<plan::Tier, std::unique_ptr<scratch::Scratch>> tiers_;
  std::vector<UnitExtents> units_;
  plan::ValueSlots slots_;
  std::vector<scratch::Extent> values_;  // by slot
  std::int64_t host_bytes_ = 0;
};

}  // namespace trireme::exec
