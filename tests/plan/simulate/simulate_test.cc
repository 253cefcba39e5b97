#include "trireme/plan/simulate/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/plan/cases.h"
#include "trireme/plan/compile/forward_only.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/shard.h"
#include "trireme/plan/simulate/critical_path.h"

namespace trireme::simulate::simulate_test {
namespace {

using plan::Instr;
using plan::Lane;
using plan::PlanSet;
using plan::Verb;

// anchors.md: F = I = W = 1, so backward is 2; nothing else costs.
double unit_cost(int, const Instr& line) {
  if (line.verb == Verb::kForward || line.verb == Verb::kRecompute) return 1;
  return line.verb == Verb::kBackward ? 2 : 0;
}

// One node a stage.
plan::Program stages(int count) {
  plan::Program program{.name = "stages"};
  program.values.push_back({.name = "x", .bytes = 4, .differentiable = false});
  for (int s = 0; s < count; ++s) {
    const std::string name = "block" + std::to_string(s);
    program.units.push_back({.name = name, .numel = 1024});
    program.values.push_back({.name = name + ".out", .bytes = 1 << 20});
    program.nodes.push_back({.name = name,
                             .reads = {s},
                             .writes = {s + 1},
                             .units = {s},
                             .loss = s + 1 == count,
                             .stage = s});
  }
  return program;
}

PlanSet pipeline(int p, int m) {
  return plan::compile(stages(p), mesh::Mesh({.pp = p}),
                       {.micro_batches = m, .schedule = schedules::Schedule::kGpipe});
}

// GPipe with p stages and m micro-batches takes (m + p - 1)(F + B); bubble (p-1)/(m+p-1) (anchors.md).
TEST(Simulate, GpipeMakespanAndBubbleAreExact) {
  for (int p : {1, 2, 3, 4})
    for (int m : {1, 2, 4, 8}) {
      const Forecast forecast = simulate(pipeline(p, m), unit_cost);
      EXPECT_DOUBLE_EQ(forecast.step_s, 3.0 * (m + p - 1)) << p << " " << m;
      EXPECT_NEAR(forecast.bubble_fraction, double(p - 1) / (m + p - 1), 1e-12) << p << " " << m;
      for (const ListForecast& list : forecast.lists) EXPECT_DOUBLE_EQ(list.comp_busy_s, 3.0 * m);
    }
}

// A receive stands one action ahead of its use: of the 4 + 4 transfers only the first there and the last back
// show.
TEST(Simulate, TransfersHideBehindTheActionBefore) {
  const auto with_wire = [](int rank, const Instr& line) {
    return line.verb == Verb::kSend || line.verb == Verb::kRecv ? 0.5 : unit_cost(rank, line);
  };
  EXPECT_DOUBLE_EQ(simulate(pipeline(2, 4), with_wire).step_s, 3.0 * 5 + 2 * 0.5);
}

TEST(Simulate, GathersHideBehindComputeWhenPrefetched) {
  const auto cost = [](int rank, const Instr& line) {
    return line.verb == Verb::kUnshard ? 1.0 : unit_cost(rank, line);
  };
  plan::Program program = harness::chain_example(6);  // one unit a node: without norm
  std::erase_if(program.units, [](const plan::Unit& unit) { return unit.name == "norm"; });
  program.nodes.back().units = {7};
  const auto step = [&](int prefetch) {
    return simulate(
        plan::compile(program, mesh::Mesh({.dp_shard = 2}), {.zero = 3, .prefetch = prefetch}),
        cost);
  };
  const double compute = 8 * 3;
  // Nothing overlaps: 8 gathers forward, 8 backward.
  EXPECT_DOUBLE_EQ(step(0).step_s, compute + 16);
  EXPECT_DOUBLE_EQ(step(0).lists[0].exposed_comm_s, 16);
  // The first is exposed, and that of the last node's backward, which follows its forward.
  EXPECT_DOUBLE_EQ(step(1).step_s, compute + 2);
  EXPECT_DOUBLE_EQ(step(1).lists[0].exposed_comm_s, 2);
}

// ZeRO-1 and 2: what the first two nodes need comes in behind the steps of others, the rest behind the next forward. All of it
// behind the last step would be 8.
TEST(Simulate, GathersOfSteppedUnitsHideBehindTheNextForward) {
  const auto cost = [](int rank, const Instr& line) {
    if (line.verb == Verb::kStep) return 0.25;
    return line.verb == Verb::kUnshard ? 1.0 : unit_cost(rank, line);
  };
  plan::Program program = harness::chain_example(6);  // one unit a node: without norm
  std::erase_if(program.units, [](const plan::Unit& unit) { return unit.name == "norm"; });
  program.nodes.back().units = {7};
  for (int zero : {1, 2}) {
    const PlanSet plan = plan::compile(program, mesh::Mesh({.dp_shard = 2}), {.zero = zero});
    const Forecast forecast = simulate(plan, cost);
    constexpr double kGathers = 8;
    EXPECT_LT(forecast.step_s - 8 * (3 + 0.25), 0.2 * kGathers) << zero;
    EXPECT_LT(forecast.lists[0].exposed_comm_s, 0.2 * kGathers) << zero;
  }
}

// A practice that overlaps nothing has its waits within lines: they are exposed, and no computing.
TEST(Simulate, WaitsWithinLinesAreNoComputing) {
  const auto cost = [](int, const Instr& line) {
    LineSeconds seconds = plan::computes(line) ? 3 : 0;
    if (line.verb == Verb::kBackward) {
      seconds.waited = 1;
      seconds.transfers = 0.25;
    }
    return seconds;
  };
  const Forecast forecast =
      simulate(plan::compile(harness::chain_example(6), mesh::Mesh(), {.micro_batches = 2}), cost);
  EXPECT_DOUBLE_EQ(forecast.step_s, 2 * 8 * 6);
  EXPECT_DOUBLE_EQ(forecast.comp_busy_s, 2 * 8 * 5);
  EXPECT_DOUBLE_EQ(forecast.exposed_comm_s, 2 * 8);
  EXPECT_DOUBLE_EQ(forecast.exposed_transfers_s, 2 * 8 * 0.25);
  EXPECT_DOUBLE_EQ(forecast.bubble_fraction, 1.0 / 6);
}

TEST(Simulate, ReloadsHideBehindComputeWhenPrefetched) {
  const auto cost = [](int rank, const Instr& line) {
    return line.verb == Verb::kReload ? 1.0 : unit_cost(rank, line);
  };
  const auto step = [&](int prefetch) {
    plan::Program program = plan::forward_only(harness::chain_example(6));
    program.nodes.back().units = {7};
    return simulate(plan::compile(program, mesh::Mesh(),
                                  {.offload = {.params = plan::Tier::kNvme, .prefetch = prefetch}}),
                    cost);
  };
  EXPECT_DOUBLE_EQ(step(0).step_s, 8 + 8);
  EXPECT_DOUBLE_EQ(step(1).step_s, 8 + 1);
  EXPECT_DOUBLE_EQ(step(1).lists[0].exposed_offload_s, 1);
  EXPECT_DOUBLE_EQ(step(1).exposed_offload_s, 1);
  EXPECT_DOUBLE_EQ(step(1).lists[0].exposed_comm_s, 0);
}

TEST(Simulate, WhatLeavesMovesAtTheRateOfItsTier) {
  const CostModel model{.host_bytes_per_s = 4e9, .disk_bytes_per_s = 1e9};
  for (const auto& [tier, rate] :
       {std::pair(plan::Tier::kHost, 4e9), std::pair(plan::Tier::kNvme, 1e9)}) {
    const PlanSet plan =
        plan::compile(harness::chain_example(), mesh::Mesh(), {.offload = {.optimizer = tier}});
    for (const Instr& line : plan.lists[0]) {
      if (line.verb != Verb::kReload && line.verb != Verb::kOffload) continue;
      const std::int64_t part = plan::shard_numel(plan.program.units[line.unit].numel, 1);
      EXPECT_DOUBLE_EQ(seconds(model, plan, 0, line).all(), 8 * static_cast<double>(part) / rate);
      EXPECT_EQ(kind_of(line), PathKind::kOffload);
    }
  }
}

TEST(Simulate, ReductionsOverlapWithBackward) {
  const auto cost = [](int rank, const Instr& line) {
    return line.verb == Verb::kReduceGrads ? 1.0 : unit_cost(rank, line);
  };
  plan::Program program = harness::chain_example(6);
  program.nodes.back().units = {8};
  program.units[7].trainable = false;
  const PlanSet plan = plan::compile(program, mesh::Mesh({.dp_shard = 2}), {});
  // Only the embedding's reduction is left when backward is done.
  EXPECT_DOUBLE_EQ(simulate(plan, cost).step_s, 8 * 3 + 1);
}

// Order of lanes, `after` and meetings hold in every forecast.
TEST(Simulate, TimesRespectThePlan) {
  plan::for_each_case({1, 2}, {1, 2}, {1, 3}, {0, 1}, [](const plan::Case& one) {
    SCOPED_TRACE(one.name());
    const PlanSet plan = compile(one);
    const Forecast forecast = simulate(plan, CostModel());
    EXPECT_GT(forecast.step_s, 0);
    EXPECT_GE(forecast.bubble_fraction, 0);
    EXPECT_LT(forecast.bubble_fraction, 1);
    for (std::size_t l = 0; l < plan.lists.size(); ++l) {
      const std::vector<LineTime>& times = forecast.lists[l].lines;
      std::vector<std::pair<plan::Queue, double>> ends;
      for (std::size_t i = 0; i < times.size(); ++i) {
        const Instr& line = plan.lists[l][i];
        auto end =
            std::ranges::find(ends, plan::queue_of(line), &std::pair<plan::Queue, double>::first);
        if (end == ends.end()) end = ends.insert(end, {plan::queue_of(line), 0});
        // Transfers of a queue are on their way together and arrive in order.
        ASSERT_GE(is_transfer(line) ? times[i].end : times[i].start, end->second);
        ASSERT_GE(times[i].end, times[i].start);
        for (int earlier : line.after) ASSERT_GE(times[i].start, times[earlier].end);
        end->second = times[i].end;
      }
    }
  });
}

// anchors.md, "Communication per step and rank for P parameters": DDP 2P, ZeRO-1/2 2P, ZeRO-3 3P
// elements, each times (n-1)/n of a ring.
TEST(Cost, BytesSentFollowTheRows) {
  plan::Program program = harness::chain_example();
  double count = 0;
  for (plan::Unit& unit : program.units) {
    unit.numel = 1 << 16;
    count += static_cast<double>(unit.numel);
  }
  const double expected[] = {2, 2, 2, 3};
  for (int n : {2, 4, 8})
    for (int zero : {0, 1, 2, 3}) {
      const Forecast forecast = simulate(
          plan::compile(program, mesh::Mesh({.dp_shard = n}), {.zero = zero}), CostModel());
      EXPECT_DOUBLE_EQ(forecast.lists[0].sent_bytes, expected[zero] * 4 * count * (n - 1) / n)
          << zero << " " << n;
    }
}

TEST(Cost, ScalesWithTheModelAndTheMachine) {
  const PlanSet plan = plan::compile(harness::chain_example(), mesh::Mesh({.dp_shard = 2}), {});
  const Instr forward{.verb = Verb::kForward, .node = 1, .mb = 0};
  const Instr backward{.verb = Verb::kBackward, .node = 1, .mb = 0};
  const CostModel only_flops{.fp32_flops = 1e9, .memory_bytes_per_s = 1e300, .line_s = 0};
  EXPECT_DOUBLE_EQ(seconds(only_flops, plan, 0, forward).all(), plan.program.nodes[1].flops / 1e9);
  EXPECT_DOUBLE_EQ(seconds(only_flops, plan, 0, backward).all(),
                   2 * plan.program.nodes[1].flops / 1e9);
  CostModel half = only_flops;
  half.fp32_flops /= 2;
  EXPECT_DOUBLE_EQ(seconds(half, plan, 0, forward).all(),
                   2 * seconds(only_flops, plan, 0, forward).all());
  const auto reduce = std::ranges::find(plan.lists[0], Verb::kReduceGrads, &Instr::verb);
  const CostModel wire{.memory_bytes_per_s = 1e300, .link_bytes_per_s = 1e6, .link_latency_s = 1};
  EXPECT_NEAR(seconds(wire, plan, 0, *reduce).all(), 2 + sent_bytes(plan, *reduce) / 1e6, 1e-9);
}

TEST(Cost, SumsTakeTheRoundsAndBytesOfTheirAlgorithm) {
  PlanSet plan = plan::compile(harness::chain_example(), mesh::Mesh({.dp_shard = 8}), {});
  const auto reduce = std::ranges::find(plan.lists[0], Verb::kReduceGrads, &Instr::verb);
  const CostModel wire{.memory_bytes_per_s = 1e300, .link_bytes_per_s = 1e300, .link_latency_s = 1};
  const double bytes = sent_bytes(plan, *reduce);
  using algorithm::Kind;
  for (const auto& [kind, rounds] : {std::pair{Kind::kAuto, 14.0},
                                     {Kind::kDirect, 2.0},
                                     {Kind::kHalving, 6.0},
                                     {Kind::kRing, 14.0}}) {
    plan.recipe.algorithm = kind;
    EXPECT_NEAR(seconds(wire, plan, 0, *reduce).all(), rounds, 1e-9) << name(kind);
    EXPECT_DOUBLE_EQ(sent_bytes(plan, *reduce), bytes) << name(kind);
  }
  plan.recipe.algorithm = Kind::kTree;
  EXPECT_NEAR(seconds(wire, plan, 0, *reduce).all(), 6, 1e-9);
  EXPECT_GT(sent_bytes(plan, *reduce), bytes);
}

}  // namespace
}  // namespace trireme::simulate::simulate_test
