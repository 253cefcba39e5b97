// The axes on which ranks share a unit are data of the unit: passes, validator, account and text go by them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/plan/cases.h"
#include "tests/plan/mutations.h"
#include "trireme/base/error.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/saved.h"
#include "trireme/plan/text/text.h"
#include "trireme/plan/unit_share.h"
#include "trireme/plan/unit_sharing.h"

namespace trireme::plan::unit_axes_test {
namespace {

using mesh::Axis;
using mesh::AxisSet;
using testing::HasSubstr;

constexpr UnitId kBlock = 1;

// The unit of one block is sharded over dp_shard alone: cp ranks have equal shards.
Program program() {
  Program program = harness::chain_example(2);
  program.units[kBlock].axes.shards = Axis::kDpShard;
  return program;
}
mesh::Mesh mesh_of_8() { return mesh::Mesh({.dp_shard = 4, .cp = 2}); }

std::vector<std::string> lines_of(const PlanSet& plan, UnitId unit) {
  std::vector<std::string> lines;
  for (Instr line : plan.lists[0]) {
    line.after.clear();
    if (line.unit == unit && !line.axes.empty()) lines.push_back(line_text(plan.program, line));
  }
  return lines;
}

TEST(UnitAxes, LinesOfAUnitRunOverItsAxes) {
  for (int zero : {0, 1, 2, 3}) {
    const PlanSet plan = compile(program(), mesh_of_8(), {.zero = zero, .micro_batches = 2});
    EXPECT_EQ(refusal(plan), "") << print(plan);
    const std::string name = plan.program.units[kBlock].name;
    const std::string all = "reduce_grads " + name + " over=dp_shard+cp";
    const std::string rest = "reduce_grads " + name + " over=cp";
    const std::string scatter = "reduce_grads " + name + " over=dp_shard scatter";
    const std::string gather = "unshard " + name + " over=dp_shard";
    const auto of_mb = [&](int mb) {
      return "reduce_grads " + name + " mb=" + std::to_string(mb) + " over=dp_shard scatter";
    };
    const std::vector<std::string> lines = lines_of(plan, kBlock);
    if (zero == 0) {
      EXPECT_THAT(lines, testing::ElementsAre(all));
    }
    if (zero == 1) {
      EXPECT_THAT(lines, testing::ElementsAre(scatter, rest, gather));
    }
    if (zero == 2) {
      EXPECT_THAT(lines, testing::ElementsAre(of_mb(0), of_mb(1), rest, gather));
    }
    if (zero == 3) {
      EXPECT_THAT(lines, testing::IsSupersetOf({of_mb(0), of_mb(1), rest, gather}));
      for (const std::string& line : lines)
        EXPECT_THAT(line, testing::Not(HasSubstr("dp_shard+cp")));
    }
    // Other units stay as they were.
    if (zero > 0) {
      EXPECT_THAT(lines_of(plan, 0), testing::Contains(HasSubstr("over=dp_shard+cp scatter")));
    }
  }
}

TEST(UnitAxes, SharesAreOverItsShards) {
  const PlanSet plan = compile(program(), mesh_of_8(), {.zero = 3});
  const std::int64_t numel = plan.program.units[kBlock].numel;
  EXPECT_EQ(share_of(plan, kBlock).part, (numel + 3) / 4);
  const PlanSet usual = compile(harness::chain_example(2), mesh_of_8(), {.zero = 3});
  EXPECT_EQ(share_of(usual, kBlock).part, (numel + 7) / 8);
  const auto params = static_cast<std::size_t>(MemoryKind::kParams);
  EXPECT_EQ(
      memory_account(plan, 0).persistent[params] - memory_account(usual, 0).persistent[params],
      (numel / 4 - numel / 8) * 4);
  // Together the ranks save every element once.
  std::vector<int> saved(static_cast<std::size_t>(numel));
  for (int rank = 0; rank < plan.mesh.world(); ++rank)
    for (const SavedRange& range : saved_ranges(plan, rank))
      if (range.unit == kBlock)
        for (std::int64_t i = range.begin; i < range.end; ++i) ++saved[i];
  EXPECT_THAT(saved, testing::Each(1));
}

TEST(UnitAxes, TextHasThemWhereTheyAreNotTheUsualOnes) {
  Program other = program();
  other.units[0].axes = {
      .shards = {}, .replicas = Axis::kDpShard, .partial = {Axis::kTp, Axis::kCp}};
  const PlanSet plan = compile(other, mesh_of_8(), {.zero = 3});
  const std::string text = print(plan);
  EXPECT_THAT(text, HasSubstr("unit block0 numel="));
  EXPECT_THAT(text, HasSubstr(" shards=dp_shard\n"));
  EXPECT_THAT(text, HasSubstr(" shards=none replicas=dp_shard partial=cp+tp\n"));
  EXPECT_EQ(parse(text), plan);
  const std::string usual = print(compile(harness::chain_example(2), mesh_of_8(), {.zero = 3}));
  for (const char* key : {" shards=", " replicas=", " partial="})
    EXPECT_THAT(usual, testing::Not(HasSubstr(key)));
}

TEST(UnitAxes, OtherAxesOfALineAreRefused) {
  const PlanSet good = compile(program(), mesh_of_8(), {.zero = 3, .micro_batches = 2});
  int changed = 0;
  for (std::size_t i = 0; i < good.lists[0].size(); ++i) {
    if (good.lists[0][i].unit != kBlock || good.lists[0][i].axes.empty()) continue;
    for (const AxisSet& axes : {AxisSet(Axis::kDpShard), AxisSet(Axis::kCp), mesh::kShards}) {
      if (axes == good.lists[0][i].axes) continue;
      PlanSet plan = good;
      plan.lists[0][i].axes = axes;
      EXPECT_NE(refusal(plan), "") << line_text(good.program, good.lists[0][i]);
      ++changed;
    }
  }
  EXPECT_GT(changed, 4);
}

TEST(UnitAxes, ReductionsAreOfOneKind) {
  Program program = harness::spread_example(1);
  UnitId partial = 0;
  while (program.units[partial].tp_partial == 0) ++partial;
  const auto kind = [&](const Instr& line) { return reduction_of(program, line); };
  Instr line{.verb = Verb::kReduceGrads, .unit = partial, .axes = Axis::kTp};
  EXPECT_EQ(kind(line), Reduction::kParts);
  program.units[partial].axes.partial = Axis::kCp;
  EXPECT_EQ(kind(line), Reduction::kAllReduce);
  line.scatter = true;
  EXPECT_EQ(kind(line), Reduction::kScatter);
  line.verb = Verb::kSyncTied;
  EXPECT_EQ(kind(line), Reduction::kTied);
  line.verb = Verb::kUnshard;
  EXPECT_EQ(kind(line), Reduction::kNone);
}

TEST(UnitAxes, ShardsAreReplicasAndPartialElementsAreNot) {
  for (const UnitAxes& axes : {UnitAxes{.shards = mesh::kShards, .replicas = Axis::kDpShard},
                               UnitAxes{.partial = {Axis::kTp, Axis::kCp}}}) {
    Program broken = harness::chain_example(1);
    broken.units[0].axes = axes;
    EXPECT_THROW(check_program(broken), Error);
  }
}

}  // namespace
}  // namespace trireme::plan::unit_axes_test
