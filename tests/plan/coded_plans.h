// Plans whose sums and parameters travel as codes.
#pragma once

#include <optional>

#include "tests/plan/cases.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/plan.h"
#include "trireme/plan/unit_sharing.h"

namespace trireme::plan {

// Whose units are all large enough to be coded.
inline PlanSet coded_plan(const mesh::Degrees& degrees, int zero,
                          std::optional<DType> residual = std::nullopt) {
  Program large = harness::chain_example(1);
  for (Unit& unit : large.units) unit.numel += kLeastCoded;
  return compile(
      large, mesh::Mesh(degrees),
      {.zero = zero,
       .micro_batches = 2,
       .coded = CodedSums{.codec = codec::parse("q8"), .senders = 2, .residual = residual}});
}

// Parameters of ZeRO-3 that travel as codes which two neighbours keep; with `senders`, sums of both add before theirs are
// coded.
inline PlanSet gathered_plan(int shards, int senders,
                             std::optional<DType> residual = std::nullopt) {
  Program large = harness::chain_example(1);
  for (Unit& unit : large.units) unit.numel += kLeastCoded;
  Recipe recipe{.zero = 3,
                .micro_batches = 2,
                .gather = CodedGather{.codec = codec::parse("q8"), .within = 2}};
  if (senders > 0)
    recipe.coded = CodedSums{.codec = codec::parse("q4"), .senders = senders, .residual = residual};
  return compile(large, mesh::Mesh({.dp_shard = shards}), recipe);
}

}  // namespace trireme::plan
