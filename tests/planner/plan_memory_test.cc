#include "trireme/planner/cost/plan_memory.h"

#include <gtest/gtest.h>

#include "tests/harness/examples.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/passes/compile.h"

namespace trireme::planner::plan_memory_test {
namespace {

plan::PlanSet chain(const mesh::Degrees& degrees, int zero) {
  return plan::compile(harness::chain_example(), mesh::Mesh(degrees),
                       {.zero = zero, .micro_batches = 2});
}

TEST(PlanMemory, TensorsAreThoseOfThePlansAccount) {
  for (const int zero : {0, 1, 2, 3}) {
    const plan::PlanSet plan = chain({.dp_shard = 4}, zero);
    for (const bool expandable : {false, true}) {
      const DeviceMemory memory = plan_memory(plan, 0, expandable);
      const auto tensors = static_cast<double>(plan::memory_account(plan, 0).peak_of_tensors());
      EXPECT_DOUBLE_EQ(memory.allocated(), tensors);
      EXPECT_GE(memory.reserved(), tensors);
      EXPECT_EQ(memory.of(Pool::kHoles) > 0, !expandable);
    }
  }
}

TEST(PlanMemory, AddsContextAndEveryGroup) {
  const MemoryConstants constants{.holes = 0, .context = 1e9, .communicator = 1e8};
  const plan::PlanSet alone = chain({}, 0), four = chain({.dp_shard = 4}, 3);
  EXPECT_DOUBLE_EQ(plan_memory(alone, 0, true, constants).of(Pool::kOutside), 1e9);
  EXPECT_DOUBLE_EQ(plan_memory(four, 0, true, constants).of(Pool::kOutside),
                   1e9 + 1e8 * plan_communicators(four, 0));
  EXPECT_EQ(plan_communicators(four, 0), 1);
  EXPECT_EQ(plan_communicators(alone, 0), 0);
}

TEST(PlanMemory, CountsNeighboursOfAStage) {
  const plan::PlanSet plan = plan::compile(
      harness::tied_example(2), mesh::Mesh({.pp = 2, .dp_shard = 2}), {.micro_batches = 2});
  // dp, the norm over all and the other stage, which is also the tied unit's other end.
  EXPECT_EQ(plan_communicators(plan, 0), 3);
  const plan::PlanSet spread = plan::compile(harness::spread_example(),
                                             mesh::Mesh({.cp = 2, .tp = 2}), {.micro_batches = 2});
  EXPECT_EQ(plan_communicators(spread, 0), 2);  // tp and cp, which blocks exchange in
}

}  // namespace
}  // namespace trireme::planner::plan_memory_test
