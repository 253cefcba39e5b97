// A GPU that never was, for tests of the planner, and what nodes of a job cost on it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "trireme/model/families/describe.h"
#include "trireme/planner/cost/pricing.h"

namespace trireme::planner {

inline Gpu synthetic_card(double gib = 80) {
  return {.name = "card",
          .half_flops = 300e12,
          .fp32_flops = 20e12,
          .memory = static_cast<std::int64_t>(gib * (1 << 30)),
          .memory_rate = 2e12,
          .units = 100};
}

// Of a node, whoever computes it.
inline NodeKernels node_kernels(const config::Job& job, const Practice& practice,
                                const std::string& name) {
  const model::ModelSpec model = model::describe(job);
  return ProgramKernels(job, model, practice).of(name);
}

// Seconds of a node's line there.
inline double node_seconds(const Cluster& cluster, const config::Job& job, const std::string& name,
                           plan::Verb verb, const Practice& practice = {}) {
  const model::ModelSpec model = model::describe(job);
  const Pricing pricing(job, model, practice, cluster);
  for (const plan::Node& node : model.program.nodes)
    if (node.name == name) return pricing.node(node, verb);
  ADD_FAILURE() << "no " << name;
  return 0;
}

}  // namespace trireme::planner
