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
  kOptimizer,    // persistent: optimizer states, and master weights where they are a second copy
  kGradients,    // accumulated gradients: persistent or counter levels, full or shard
  kUnitBuffers,  // transient: gathered parameters (ZeRO-3), gradients of one backward
  kActivations,  // values, their gradients, and what forward keeps for backward
};
inline constexpr int kMemoryKinds = 5;
std::string_view name(MemoryKind kind);

using MemoryPoint = std::array<std::int64_t, kMemoryKinds>;  // bytes, indexed by MemoryKind

struct MemoryAccount {
  MemoryPoint persistent{};          // before the first line of a step
  std::vector<MemoryPoint> at_line;  // while each line runs
  MemoryPoint peak{};                // largest of each kind
  std::int64_t peak_total = 0;       // largest sum, and where
  int peak_line = -1;
  std::int64_t model_states = 0;  // parameters + gradients + optimizer, as ZeRO counts them
};
MemoryAccount memory_account(const PlanSet& plan, int rank);

}  // namespace trireme::plan
