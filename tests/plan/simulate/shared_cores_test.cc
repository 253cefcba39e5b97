#include "trireme/plan/simulate/shared_cores.h"

#include <gtest/gtest.h>

#include "tests/plan/cases.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/simulate/simulate.h"

namespace trireme::simulate::shared_cores_test {
namespace {

using plan::Instr;
using plan::PlanSet;
using plan::Verb;

TaskGraph::Task task(double work, std::vector<int> ended = {}) {
  return {.work = work, .ranks = 1, .ended = std::move(ended)};
}

std::vector<double> ends(const TaskGraph& graph, const Cores& cores) {
  std::vector<double> all;
  for (const TaskTime& time : run_tasks(graph, cores)) all.push_back(time.end);
  return all;
}

// On one core both run at half speed until the shorter has done 1 at t = 2; the longer has 1 left.
TEST(SharedCores, TwoTasksTakeTurnsOnOneCore) {
  EXPECT_EQ(ends({{task(2), task(1)}}, {.count = 1}), (std::vector<double>{3, 2}));
}

// Three on two cores run at 2/3: the first ends at 1.5. Then each has a core: 1 left ends at 2.5, 2 left at 3.5.
TEST(SharedCores, ThreeTasksShareTwoCores) {
  const std::vector<double> found = ends({{task(1), task(2), task(3)}}, {.count = 2});
  EXPECT_DOUBLE_EQ(found[0], 1.5);
  EXPECT_DOUBLE_EQ(found[1], 2.5);
  EXPECT_DOUBLE_EQ(found[2], 3.5);
}

// Two busy cores of two take 1.25 times as long: the first ends at 1.25; what is left of the other runs alone.
TEST(SharedCores, BusyNeighboursSlowEachOther) {
  const std::vector<double> found = ends({{task(1), task(2)}}, {.count = 2, .crowding = 1.25});
  EXPECT_DOUBLE_EQ(found[0], 1.25);
  EXPECT_DOUBLE_EQ(found[1], 2.25);
  // Of three cores with two busy, half of that.
  EXPECT_DOUBLE_EQ((Cores{.count = 3, .crowding = 1.5}.speed(2)), 1 / 1.25);
  EXPECT_DOUBLE_EQ((Cores{.count = 2, .crowding = 1.25}.speed(4)), 0.5 / 1.25);
}

// A collective of two ranks is two who ask for a core: with a third on two cores 2/3 each.
TEST(SharedCores, ACollectiveWorksOnTheCoresOfAllItsRanks) {
  TaskGraph graph{{task(2), task(2)}};
  graph.tasks[0].ranks = 2;
  EXPECT_EQ(ends(graph, {.count = 2}), (std::vector<double>{3, 3}));
}

// A travels 2 after its work: what needs only the work goes on at 1, what needs A begins at 3. What is sent after A
// travels 0.5 but does not arrive before it.
TEST(SharedCores, WhatTravelsNeedsNoCoreAndArrivesInOrder) {
  TaskGraph graph{{task(1), task(1), task(1, {0}), task(0.25)}};
  graph.tasks[0].latency = 2;
  graph.tasks[1].worked = {0};
  graph.tasks[3] = {
      .work = 0.25, .latency = 0.5, .ranks = 1, .ended = {}, .worked = {1}, .not_before = {0}};
  const std::vector<TaskTime> found = run_tasks(graph, {.count = 1});
  EXPECT_DOUBLE_EQ(found[0].end, 3);
  EXPECT_DOUBLE_EQ(found[1].end, 2);
  EXPECT_DOUBLE_EQ(found[3].end, 3);
  EXPECT_DOUBLE_EQ(found[2].start, 3);
  EXPECT_DOUBLE_EQ(found[2].end, 4);
  EXPECT_EQ(found[2].cause, 0);
}

plan::Program chain(int count) {
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

PlanSet shared_pipeline(int p, int m, mesh::Degrees degrees = {}) {
  degrees.pp = p;
  return plan::compile(chain(p), mesh::Mesh(degrees),
                       {.micro_batches = m, .schedule = schedules::Schedule::kGpipe});
}

double whole_cost(int, const Instr& line) {
  if (line.verb == Verb::kForward || line.verb == Verb::kRecompute) return 1;
  return line.verb == Verb::kBackward ? 2 : 0;
}

// One core has always something to do: p stages with m micro-batches of F + B = 3 take 3 p m. As many cores as stages
// make the pipeline that it is without.
TEST(SharedCores, APipelineOnOneCoreAddsUp) {
  for (const int p : {1, 2, 4})
    for (const int m : {1, 2, 4}) {
      EXPECT_DOUBLE_EQ(simulate(shared_pipeline(p, m), whole_cost, {.count = 1}).step_s,
                       3.0 * p * m);
      EXPECT_DOUBLE_EQ(simulate(shared_pipeline(p, m), whole_cost, {.count = p}).step_s,
                       3.0 * (m + p - 1));
    }
}

// Three stages, two micro-batches, two cores. Forwards: at most two are ready at a time, so [0,1] .. [3,4] as on three
// cores. Backwards of 2 likewise: 3 (m + p - 1) = 12. With three micro-batches all three stages have a forward in
// [2,3]: it takes 1.5 instead of 1. So do the backwards in the middle, 3 instead of 2: 15 + 0.5 + 1.
TEST(SharedCores, StagesBeyondTheCoresWaitOnlyWhereAllAreBusy) {
  EXPECT_DOUBLE_EQ(simulate(shared_pipeline(3, 2), whole_cost, {.count = 2}).step_s, 12);
  EXPECT_DOUBLE_EQ(simulate(shared_pipeline(3, 3), whole_cost, {.count = 2}).step_s, 16.5);
}

// Two data-parallel ranks of every stage run one list: two who ask for a core.
TEST(SharedCores, RanksThatShareAListCountEach) {
  const PlanSet plan = shared_pipeline(1, 2, {.dp_shard = 2});
  const Forecast forecast = simulate(plan, whole_cost, {.count = 1});
  EXPECT_DOUBLE_EQ(forecast.step_s, 12);
  EXPECT_DOUBLE_EQ(forecast.lists[0].comp_busy_s, 12);
}

// With a core for everything the times are those of lanes that share nothing, line by line.
TEST(SharedCores, CoresForEverythingChangeNothing) {
  const auto cost = [](int rank, const Instr& line) -> LineSeconds {
    if (plan::is_transfer(line)) return {0.25, 0.125};
    if (line.verb == Verb::kUnshard || line.verb == Verb::kReduceGrads) return 0.75;
    return whole_cost(rank, line);
  };
  for (const PlanSet& plan : {shared_pipeline(4, 6), shared_pipeline(2, 4, {.dp_shard = 2}),
                              plan::compile(harness::chain_example(6), mesh::Mesh({.dp_shard = 2}),
                                            {.zero = 3, .micro_batches = 2})}) {
    const Forecast alone = simulate(plan, cost), shared = simulate(plan, cost, {.count = 1000});
    EXPECT_DOUBLE_EQ(alone.step_s, shared.step_s);
    for (std::size_t list = 0; list < alone.lists.size(); ++list) {
      const ListForecast &one = alone.lists[list], &other = shared.lists[list];
      EXPECT_DOUBLE_EQ(one.comp_busy_s, other.comp_busy_s);
      EXPECT_NEAR(one.exposed_comm_s, other.exposed_comm_s, 1e-9);
      EXPECT_DOUBLE_EQ(one.sent_bytes, other.sent_bytes);
      for (std::size_t i = 0; i < one.lines.size(); ++i) {
        EXPECT_DOUBLE_EQ(one.lines[i].start, other.lines[i].start) << list << " " << i;
        EXPECT_DOUBLE_EQ(one.lines[i].end, other.lines[i].end) << list << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace trireme::simulate::shared_cores_test
