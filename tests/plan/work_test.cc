// What nodes hold while they run, in the account and in text.
#include <gtest/gtest.h>

#include "tests/harness/examples.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/passes/compile.h"

namespace trireme::plan::work_test {
namespace {

constexpr auto kWork = static_cast<std::size_t>(MemoryKind::kWork);

Program working(Program program) {
  std::int64_t bytes = 1000;
  for (Node& node : program.nodes) {
    node.work = {.forward = bytes + 1,
                 .passing = bytes + 2,
                 .backward = bytes + 3,
                 .input = bytes + 4,
                 .weight = bytes + 5};
    if (!node.loss && !node.units.empty())
      node.split = BackwardSplit{.kept_bytes = 100, .weight_flops = 1};
    bytes += 1000;
  }
  return program;
}

std::int64_t expected(const Program& program, const Instr& line) {
  if (line.node < 0) return 0;
  const NodeWork& work = program.nodes[line.node].work;
  switch (line.verb) {
    case Verb::kForward: return line.keep ? work.forward : work.passing;
    case Verb::kRecompute: return work.forward;
    case Verb::kBackward: return work.backward;
    case Verb::kBackwardInput: return work.input;
    case Verb::kBackwardWeight: return work.weight;
    default: return 0;
  }
}

// Every line has its own, and none is left when it ends.
TEST(Work, IsThereWhileALineRuns) {
  int seen = 0;
  for (schedules::Schedule schedule :
       {schedules::Schedule::k1F1B, schedules::Schedule::kZbH1, schedules::Schedule::kGpipe})
    for (bool recompute : {false, true}) {
      Program program = working(harness::chain_example(4));
      for (std::size_t n = 0; n < program.nodes.size(); ++n) {
        program.nodes[n].stage = n < 3 ? 0 : 1;
        if (recompute && !program.nodes[n].loss) program.nodes[n].segment = static_cast<int>(n);
      }
      for (Value& value : program.values) value.shape = {value.bytes / 4};
      const PlanSet plan =
          compile(program, mesh::Mesh({.pp = 2}), {.micro_batches = 4, .schedule = schedule});
      for (int rank : {0, 1}) {
        const MemoryAccount account = memory_account(plan, rank);
        const List& list = plan.list(rank);
        for (std::size_t i = 0; i < list.size(); ++i) {
          EXPECT_EQ(account.at_line[i][kWork], expected(plan.program, list[i])) << i;
          seen |= 1 << static_cast<int>(list[i].verb);
        }
        EXPECT_EQ(account.persistent[kWork], 0);
      }
    }
  for (Verb verb : {Verb::kForward, Verb::kRecompute, Verb::kBackward, Verb::kBackwardInput,
                    Verb::kBackwardWeight})
    EXPECT_TRUE(seen & 1 << static_cast<int>(verb)) << name(verb);
}

TEST(Work, OfAForwardThatKeepsNothingIsItsOwn) {
  Program program = working(harness::chain_example());
  for (Node& node : program.nodes) node.no_grad = true;
  for (Unit& unit : program.units) unit.trainable = false;
  const PlanSet plan = compile(program, mesh::Mesh(), {});
  EXPECT_EQ(memory_account(plan, 0).peak[kWork], program.nodes.back().work.passing);
}

TEST(Work, SurvivesAsText) {
  const PlanSet plan = compile(working(harness::chain_example()), mesh::Mesh(), {});
  EXPECT_EQ(parse(print(plan)), plan);
}

}  // namespace
}  // namespace trireme::plan::work_test
