// Outer steps in plans: the rounds of fragments, and what the validator refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/harness/examples.h"
#include "tests/plan/mutations.h"
#include "trireme/plan/check/validate.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/outer_steps.h"
#include "trireme/plan/passes/compile.h"

namespace trireme::plan::outer_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Outer, FragmentsAreSentAtTheirStepsOfARound) {
  const OuterSteps outer{.every = 6, .fragments = 3};
  std::map<std::int64_t, std::vector<int>> sent;
  for (std::int64_t step = 1; step <= 14; ++step) {
    const OuterWork work = outer_work(outer, step, /*last=*/false);
    EXPECT_EQ(work.at_once, !work.sent.empty()) << step;
    EXPECT_THAT(work.applied, IsEmpty());
    if (!work.sent.empty()) sent[step] = work.sent;
  }
  const std::map<std::int64_t, std::vector<int>> expected = {
      {6, {0}}, {8, {1}}, {10, {2}}, {12, {0}}, {14, {1}}};
  EXPECT_EQ(sent, expected);
  const OuterWork last = outer_work(outer, 13, /*last=*/true);
  EXPECT_THAT(last.sent, ElementsAre(0, 1, 2));
  EXPECT_TRUE(last.at_once);
}

// Both ways of a merge have at least one step, where there are two. Sums without codes have one way.
TEST(Outer, ADelayIsDividedByTheBytesOfBothWays) {
  for (const int delay : {0, 1, 5}) EXPECT_EQ(steps_to_owners(delay, 1), delay);
  EXPECT_EQ(steps_to_owners(1, 0.3), 1);
  EXPECT_EQ(steps_to_owners(2, 0.01), 1);
  EXPECT_EQ(steps_to_owners(2, 0.99), 1);
  EXPECT_EQ(steps_to_owners(6, 1.0 / 3), 2);
  EXPECT_EQ(steps_to_owners(6, 0.5), 3);
  const CodedReduction coded{.sums = {.codec = codec::parse("f4"), .back = codec::parse("q8")},
                             .block = 256,
                             .back_block = 256,
                             .count = 4096};
  EXPECT_NEAR(share_to_owners(coded), 0.5156 / (0.5156 + 1.0078), 1e-3);
}

// Over rounds of every shape: what is sent is applied once, `delay` steps later or at the end, before it is sent again.
TEST(Outer, OneExchangeOfAFragmentIsOnItsWay) {
  for (const std::int64_t every : {1, 2, 5, 6})
    for (int fragments = 1; fragments <= every; ++fragments)
      for (int delay = 0; 2 * delay <= every; ++delay) {
        const OuterSteps outer{.every = every, .fragments = fragments, .delay = delay};
        std::vector<std::int64_t> on_way(static_cast<std::size_t>(fragments), 0);
        const std::int64_t steps = 4 * every + delay;
        for (std::int64_t step = 1; step <= steps; ++step) {
          const OuterWork work = outer_work(outer, step, step == steps);
          for (const int one : work.applied) {
            ASSERT_GT(on_way[one], 0);
            ASSERT_TRUE(step == on_way[one] + delay || step == steps);
            on_way[one] = 0;
          }
          for (const int one : work.sent) {
            ASSERT_EQ(on_way[one], 0) << every << " " << fragments << " " << delay;
            if (!work.at_once) on_way[one] = step;
          }
        }
        for (const std::int64_t left : on_way) EXPECT_EQ(left, 0);
        // A run that is continued after its last step finds nothing on its way.
        for (std::int64_t step = steps + 1; step <= steps + delay; ++step)
          EXPECT_THAT(outer_work(outer, step, false, steps).applied, IsEmpty());
      }
}

TEST(Outer, LayersAreStridedAndOtherUnitsJoinTheSmallest) {
  const auto unit = [](const char* name, std::int64_t numel, bool trainable = true) {
    Unit one;
    one.name = name;
    one.numel = numel;
    one.trainable = trainable;
    return one;
  };
  Program program;
  program.units = {unit("embed", 500),  unit("block0", 100),         unit("block1", 100),
                   unit("block2", 100), unit("vision0", 900, false), unit("norm", 10),
                   unit("head", 300)};
  EXPECT_THAT(fragments_of_units(program, 1), ElementsAre(0, 0, 0, 0, -1, 0, 0));
  EXPECT_THAT(fragments_of_units(program, 2), ElementsAre(1, 0, 1, 0, -1, 0, 0));
}

Recipe merging(int zero, OuterWork work, int delay = 0) {
  return {
      .zero = zero,
      .outer = OuterSteps{.islands = 2, .fragments = 2, .delay = delay, .work = std::move(work)}};
}

const mesh::Mesh kMesh({.dp_shard = 2, .island = 2});

// Islands add no gradients, and merge over their own axis alone, whatever replicas each has.
TEST(Outer, GradientsAreReducedInsideAnIsland) {
  for (const int replicas : {1, 2})
    for (const int zero : {0, 1, 2, 3}) {
      const mesh::Mesh mesh({.dp_replicate = replicas, .dp_shard = 2, .island = 2});
      const PlanSet plan =
          compile(harness::chain_example(), mesh, merging(zero, {.sent = {0, 1}, .at_once = true}));
      validate(plan);
      int merges = 0, steps = 0;
      for (const Instr& line : plan.lists[0]) {
        if (line.verb == Verb::kReduceGrads) {
          EXPECT_FALSE(line.axes.contains(mesh::Axis::kIsland));
          EXPECT_TRUE(mesh.real(mesh::kDp).contains(line.axes));
        }
        if (line.verb == Verb::kOuterReduce) {
          EXPECT_EQ(line.axes, mesh::AxisSet(mesh::Axis::kIsland));
          ++merges;
        }
        steps += line.verb == Verb::kOuterStep;
      }
      EXPECT_EQ(merges, std::ssize(plan.program.units));
      EXPECT_EQ(steps, std::ssize(plan.program.units));
      EXPECT_EQ(parse(print(plan)), plan);
    }
}

TEST(Outer, MissingAndDoubledLinesAreRefused) {
  for (const int delay : {0, 1}) {
    const OuterWork all{.applied = delay > 0 ? std::vector{0, 1} : std::vector<int>(),
                        .sent = {0, 1},
                        .at_once = true};
    for (const int zero : {0, 1, 3}) {
      const PlanSet good = compile(harness::chain_example(), kMesh, merging(zero, all, delay));
      ASSERT_EQ(refusal(good), "");
      for_each_line(good, [&](std::size_t l, std::size_t i) {
        const Verb verb = good.lists[l][i].verb;
        if (verb != Verb::kOuterReduce && verb != Verb::kOuterStep) return;
        PlanSet plan = good;
        drop(plan.lists[l], static_cast<int>(i));
        EXPECT_NE(refusal(plan), "") << i;
        plan = good;
        repeat(plan.lists[l], static_cast<int>(i));
        EXPECT_NE(refusal(plan), "") << i;
      });
    }
  }
}

TEST(Outer, RecipesThatDoNotFitAreRefused) {
  const auto reason = [&](const Recipe& recipe, const mesh::Mesh& mesh) -> std::string {
    try {
      compile(harness::chain_example(), mesh, recipe);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(reason(merging(0, {}), mesh::Mesh({.dp_shard = 2})),
              HasSubstr("2 islands on a mesh with 1"));
  EXPECT_THAT(reason({}, kMesh), HasSubstr("2 islands that merge nothing"));
  EXPECT_THAT(reason(merging(0, {.sent = {2}, .at_once = true}), kMesh),
              HasSubstr("other fragments than 0 to 1"));
  EXPECT_THAT(reason(merging(0, {.sent = {0}}), kMesh), HasSubstr("applies what it sends"));
  EXPECT_THAT(reason(merging(0, {.applied = {0}}), kMesh), HasSubstr("on its way"));
  Recipe half = merging(0, {});
  half.master = half.compute = DType::kBF16;
  EXPECT_THAT(reason(half, kMesh), HasSubstr("needs fp32 or fp64 masters"));
  const Program averages = harness::jepa_example();
  try {
    compile(averages, kMesh, merging(0, {}));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("is a moving average, which islands do not merge"));
  }
}

// Outer weights and velocity: 8 bytes for every parameter that a rank steps.
// A merge of the last step has what a fragment's samples were since it was sent last.
TEST(Outer, TheStepThatSentAFragmentLastIsKnown) {
  const OuterSteps outer{.every = 6, .fragments = 3};
  EXPECT_EQ(last_sent(outer, 0, 6, 0), 0);
  EXPECT_EQ(last_sent(outer, 0, 13, 0), 12);
  EXPECT_EQ(last_sent(outer, 1, 13, 0), 8);
  EXPECT_EQ(last_sent(outer, 2, 10, 0), 0);
  EXPECT_EQ(last_sent(outer, 1, 13, 9), 9);
}

// One account stands for all steps of a run, also those that merge.
TEST(Outer, TheAccountOfAPlainStepCoversMerges) {
  const auto needed = [](const OuterWork& work) {
    const PlanSet plan = compile(harness::chain_example(1), mesh::Mesh({.island = 2}),
                                 {.outer = OuterSteps{.islands = 2, .work = work}});
    return memory_account(plan, 0).peak_of_tensors();
  };
  EXPECT_GE(needed({}), needed({.sent = {0}, .at_once = true}));
}

TEST(Outer, TheAccountHasWeightsAndVelocity) {
  for (const int zero : {0, 1, 3}) {
    const PlanSet islands = compile(harness::chain_example(), kMesh, merging(zero, {}));
    Recipe plain = merging(zero, {});
    plain.outer.reset();
    const PlanSet dense = compile(harness::chain_example(), mesh::Mesh({.dp_shard = 2}), plain);
    std::int64_t expected = 0;
    for (UnitId unit = 0; unit < std::ssize(islands.program.units); ++unit)
      expected += outer_bytes(islands, unit);
    const auto kind = static_cast<std::size_t>(MemoryKind::kOptimizer);
    EXPECT_EQ(memory_account(islands, 0).persistent[kind],
              memory_account(dense, 0).persistent[kind] + expected);
    EXPECT_GE(expected, 8 * 80'000 / (zero > 0 ? 2 : 1));
  }
}

}  // namespace
}  // namespace trireme::plan::outer_test
