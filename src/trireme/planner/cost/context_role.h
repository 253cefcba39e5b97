// ContextRole: what the exchanges of a node over context-parallel ranks are for.
#pragma once

#include "trireme/plan/program.h"
#include "trireme/planner/hardware/practice.h"

namespace trireme::planner {

inline bool is_over_cp(const plan::NodeExchange& exchange) {
  return exchange.axes == mesh::AxisSet(mesh::Axis::kCp);
}

// What a cp exchange of a node is for.
enum class ContextRole {
  kWaited,      // attention waits for it: keys of all ranks, or heads in exchange for tokens
  kRecomputed,  // a ring's keys and values, for attention that backward computes again
  kKeys,        // a ring's keys and values
  kGradients,   // gradients of a ring's keys and values, which follow them and make one turn more
  kHomeward     // the same in 16 bits, which end at home: each turn sends twice as much
};

inline ContextRole context_role(const plan::NodeExchange& exchange, const Practice& practice) {
  if (exchange.kind != plan::Exchange::kSendRecv || !practice.overlaps_context)
    return ContextRole::kWaited;
  if (!exchange.part.empty()) return ContextRole::kRecomputed;
  if (exchange.forward > 0) return ContextRole::kKeys;
  return practice.ring_homeward ? ContextRole::kHomeward : ContextRole::kGradients;
}

}  // namespace trireme::planner
