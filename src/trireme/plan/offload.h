// Offload: the shards of units and the values that leave memory, and their space elsewhere.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "trireme/plan/plan.h"

namespace trireme::plan {

// Granularity of scratch space, and of memory that moves directly.
inline constexpr std::int64_t kPage = 4096;
constexpr std::int64_t whole_pages(std::int64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

Tier tier_of(const Offload& offload, TensorKind tensors);

// Shards of every unit that wait outside memory. Those of the optimizer leave for the largest units first, each that
// fits into the ratio of every stage that holds it.
class Away {
 public:
  Away(const Program& program, const Recipe& recipe);
  bool operator()(UnitId unit, TensorKind tensors) const {
    return away_[static_cast<std::size_t>(tensors)][unit];
  }
  // Whether any unit's does.
  bool any(TensorKind tensors) const;
  // Share of the stepped parameters whose states are offloaded.
  double states_share() const { return states_share_; }

 private:
  void send_states(const Program& program, std::vector<UnitId> stepped, double ratio);

  std::array<std::vector<bool>, 4> away_;
  double states_share_ = 0;
};

// Bytes that a rank of the stage needs for the offloaded shards of a unit: one entry for each range of memory.
struct UnitSpace {
  std::vector<std::int64_t> states;  // a second copy of the weights, then the states
  std::int64_t params = 0;
  std::int64_t gradient = 0;  // the step's sum
  std::int64_t level = 0;     // a sum over some micro-batches
  std::vector<int> levels;    // how many each chunk of the rank sends away

  std::int64_t states_bytes() const;
};
UnitSpace space_of(const PlanSet& plan, UnitId unit, int stage);

// Where values wait that leave: a slot is taken again once its value has been read.
struct ValueSlots {
  std::map<std::pair<ValueId, int>, int> of{};  // value, micro-batch
  std::vector<std::int64_t> bytes{};
};
ValueSlots value_slots(const Program& program, std::span<const Instr> list);

// Bytes in host memory on a rank, in whole pages of each range.
std::int64_t host_bytes(const PlanSet& plan, int rank);

// Bytes that a reload or offload moves.
std::int64_t transit_bytes(const PlanSet& plan, int stage, const Instr& line);

// Lines that take memory: before them at most the last unit or value that left may still be on its way.
bool takes_memory(const Instr& line);
// Whether two lines that send something away speak of one unit or value.
inline bool same_subject(const Instr& a, const Instr& b) {
  return a.unit == b.unit && a.value == b.value && a.mb == b.mb;
}

// Maximum number of units in memory for their step, in addition to the one on its way out.
int staged_units(const PlanSet& plan);

}  // namespace trireme::plan
