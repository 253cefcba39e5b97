// Every recipe on every mesh and program: proven, round-tripped, counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/plan/cases.h"
#include "trireme/plan/check/validate.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/passes/compile.h"

namespace trireme::plan::property_test {
namespace {

// Stretches of neighbouring nodes that use a unit, forward and backward: each is gathered for itself. A segment runs
// again in forward's order before it goes back.
std::pair<int, int> unit_runs(const Program& program, const GradientFlow& flow, UnitId unit,
                              int stage) {
  std::vector<const Node*> forward, backward;
  std::vector<std::vector<const Node*>> segments;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const Node& node = program.nodes[n];
    if (node.stage != stage) continue;
    forward.push_back(&node);
    if (!flow.node_has_backward[n]) continue;
    if (segments.empty() || node.segment < 0 || segments.back().back()->segment != node.segment)
      segments.emplace_back();
    segments.back().push_back(&node);
  }
  for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) {
    if (segment->front()->segment >= 0)
      backward.insert(backward.end(), segment->begin(), segment->end());
    std::copy_if(segment->rbegin(), segment->rend(), std::back_inserter(backward),
                 [](const Node* node) { return !node->looks_up; });
  }
  const auto runs = [&](const std::vector<const Node*>& nodes) {
    int count = 0;
    bool before = false;
    for (const Node* node : nodes) {
      const bool uses = contains(node->units, unit);
      count += uses && !before;
      before = uses;
    }
    return count;
  };
  return {runs(forward), runs(backward)};
}

TEST(Property, EveryPlanIsProvenAndItsTextReadsBack) {
  int count = 0;
  for_each_case({1, 2, 4, 8}, {1, 2}, {1, 2, 3, 4, 8}, {0, 1, 2}, [&](const Case& one) {
    SCOPED_TRACE(one.name());
    const PlanSet plan = compile(one);
    ASSERT_NO_THROW(validate(plan));
    const std::string text = print(plan);
    ASSERT_EQ(parse(text), plan);
    ++count;
  });
  EXPECT_EQ(count, 12 * (3 + 3) * 4 * 2 * 5 * 3);
}

// anchors.md, "Communication": one all-reduce a unit; one reduce-scatter and one all-gather a unit
// (ZeRO-1/2); two all-gathers and one reduce-scatter a unit and backward (ZeRO-3); with replicas one
// all-reduce of the shard a unit and step.
TEST(Property, CollectivesAreCountedInClosedForm) {
  for_each_case({1, 2, 4}, {1, 2}, {1, 2, 3, 4}, {0, 1, 2}, [&](const Case& one) {
    SCOPED_TRACE(one.name());
    const PlanSet plan = compile(one);
    const GradientFlow flow = gradient_flow(one.program);
    const bool sharded = one.mesh.degree(mesh::kShards) > 1;
    const bool replicated = one.mesh.degree(mesh::Axis::kDpReplicate) > 1;
    const int zero = one.recipe.zero;
    for (int stage = 0; stage < stages_of(one.program); ++stage)
      for (UnitId unit : units_of_stage(one.program, stage)) {
        const Unit& declared = one.program.units[unit];
        SCOPED_TRACE(declared.name);
        const int mbs = declared.name == "scale" ? 1 : one.recipe.micro_batches;  // of a joint loss
        int gathers = 0, scatters = 0, parts = 0, all_reduces = 0, syncs = 0;
        for (const Instr& line : plan.lists[stage]) {
          if (line.unit != unit) continue;
          gathers += line.verb == Verb::kUnshard;
          scatters += line.verb == Verb::kReduceGrads && line.scatter;
          const bool over_tp = line.axes == mesh::AxisSet(mesh::Axis::kTp);
          parts += line.verb == Verb::kReduceGrads && over_tp;
          all_reduces += line.verb == Verb::kReduceGrads && !line.scatter && !over_tp;
          syncs += line.verb == Verb::kSyncTied;
        }
        const auto [forward_runs, backward_runs] = unit_runs(one.program, flow, unit, stage);
        const bool trains = declared.trainable;
        const bool updates = trains || declared.ema_of >= 0;
        const int expected_gathers = !sharded    ? 0
                                     : zero == 3 ? mbs * (forward_runs + backward_runs)
                                     : zero >= 1 ? updates
                                                 : 0;
        EXPECT_EQ(gathers, expected_gathers);
        EXPECT_EQ(scatters, !sharded || !trains || zero == 0 ? 0 : zero == 1 ? 1 : mbs);
        EXPECT_EQ(parts, declared.tp_partial == 0 ? 0 : zero >= 2 && sharded ? mbs : 1);
        EXPECT_EQ(all_reduces, trains && (replicated || (sharded && zero == 0)) ? 1 : 0);
        EXPECT_EQ(syncs, trains && stages_of_unit(one.program, unit).size() > 1 ? 1 : 0);
      }
  });
}

// A chain has one run a direction: exactly two gathers a unit and micro-batch.
TEST(Property, Zero3GathersTwiceAndScattersOncePerBackward) {
  const PlanSet plan = compile(harness::chain_example(3), mesh::Mesh({.dp_shard = 4}),
                               {.zero = 3, .micro_batches = 2});
  std::map<UnitId, int> gathers, scatters;
  for (const Instr& line : plan.lists[0]) {
    gathers[line.unit] += line.verb == Verb::kUnshard;
    scatters[line.unit] += line.verb == Verb::kReduceGrads;
  }
  for (UnitId unit = 0; unit < static_cast<UnitId>(plan.program.units.size()); ++unit) {
    EXPECT_EQ(gathers[unit], 2 * 2);
    EXPECT_EQ(scatters[unit], 1 * 2);
  }
}

// A tied unit is gathered for each stretch of its users: embedding and loss, forward and backward, but not for the
// backward of an embedding that only looks rows up.
TEST(Property, Zero3GathersATiedUnitForEachStretchOfUsers) {
  const PlanSet plan = compile(harness::tied_example(1), mesh::Mesh({.dp_shard = 2}),
                               {.zero = 3, .micro_batches = 1});
  const auto count = [&](Verb verb) {
    return std::ranges::count_if(
        plan.lists[0], [&](const Instr& line) { return line.verb == verb && line.unit == 0; });
  };
  EXPECT_EQ(count(Verb::kUnshard), 3);
  EXPECT_EQ(count(Verb::kReduceGrads), 1);
}

TEST(Property, GatheredNodesNeverExceedPrefetchPlusOne) {
  for (int prefetch : {0, 1, 2, 5}) {
    const PlanSet plan = compile(harness::chain_example(6), mesh::Mesh({.dp_shard = 2}),
                                 {.zero = 3, .micro_batches = 2, .prefetch = prefetch});
    int live = 0, most = 0;
    // Units norm and head belong to one node: count the pair once.
    for (const Instr& line : plan.lists[0]) {
      const bool counted = line.unit >= 0 && plan.program.units[line.unit].name != "norm";
      live += counted && line.verb == Verb::kUnshard;
      live -= counted && line.verb == Verb::kReshard;
      most = std::max(most, live);
    }
    EXPECT_EQ(live, 0);
    EXPECT_EQ(most, prefetch + 1);
  }
}

TEST(Property, RepresentativesMakeThousandsOfRanksCheap) {
  const PlanSet plan = compile(
      harness::tied_example(2, 32), mesh::Mesh({.pp = 2, .dp_replicate = 16, .dp_shard = 128}),
      {.zero = 3, .micro_batches = 8, .schedule = schedules::Schedule::kGpipe});
  EXPECT_EQ(plan.mesh.world(), 4096);
  EXPECT_NO_THROW(validate(plan));
}

TEST(Property, DigestsTellPlansApart) {
  const Program program = harness::chain_example();
  const mesh::Mesh mesh({.dp_shard = 2});
  const std::uint64_t base = digest(compile(program, mesh, {.zero = 3}));
  EXPECT_EQ(base, digest(compile(program, mesh, {.zero = 3})));
  EXPECT_NE(base, digest(compile(program, mesh, {.zero = 3, .prefetch = 2})));
  EXPECT_NE(base, digest(compile(program, mesh, {.zero = 3, .clip = false})));
}

}  // namespace
}  // namespace trireme::plan::property_test
