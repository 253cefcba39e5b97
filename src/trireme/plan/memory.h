// Memory of one rank over the lines of its list, by kind, counted from the plan alone.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "trireme/plan/plan.h"

namespace trireme::plan {

enum class MemoryKind : std::uint8_t {
  kParams,       // persistent: full parameters (ZeRO-0/1/2) or the shard (ZeRO-3), in compute type
  kOptimizer,    // persistent: optimizer states, and what master weights have beyond the parameters
  kGradients,    // accumulated gradients: persistent or counter levels, full or shard
  kUnitBuffers,  // transient: gathered parameters (ZeRO-3), gradients of one backward
  kActivations,  // values, their gradients, and what forward keeps for backward
  kWork,         // transient memory of a node while it runs, in addition to these
  kCommBuffers,  // transient: copies of gradients on their way between ranks
  kStaging,      // states and parameters that have come back, until they leave again
  kHost,  // persistent: what waits in host memory, in whole pages; on a CPU it is the same memory
};
inline constexpr int kMemoryKinds = 9;
std::string_view name(MemoryKind kind);

using MemoryPoint = std::array<std::int64_t, kMemoryKinds>;  // bytes, indexed by MemoryKind

struct MemoryAccount {
  MemoryPoint persistent{};          // before the first line of a step
  std::vector<MemoryPoint> at_line;  // while each line runs
  MemoryPoint peak{};                // largest of each kind
  std::int64_t peak_total = 0;       // largest sum, and where
  int peak_line = -1;
  // The most that tensors take: all but what waits in host memory.
  std::int64_t peak_of_tensors() const {
    return peak_total - persistent[static_cast<std::size_t>(MemoryKind::kHost)];
  }
  // The most that is in the memory of the tensors, which on a CPU is the host's.
  std::int64_t peak_in_memory(bool host) const { return host ? peak_total : peak_of_tensors(); }
  std::int64_t model_states = 0;  // parameters + gradients + optimizer, as ZeRO counts them
};
MemoryAccount memory_account(const PlanSet& plan, int rank);

// While a forward runs, what it makes of the parts that it does not keep.
std::int64_t dropped_bytes(const Node& node);

}  // namespace trireme::plan
