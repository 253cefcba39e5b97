// Which nodes run again: segments in plans, and the cheapest choice against all choices.
#include "trireme/plan/compile/recompute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "tests/plan/cases.h"
#include "tests/plan/mutations.h"
#include "trireme/base/error.h"
#include "trireme/plan/check/validate.h"
#include "trireme/plan/compile/partition.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/compile/recompute_search.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/passes/compile.h"

namespace trireme::plan::recompute_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int> segments_of(const Program& program) {
  std::vector<int> segments;
  for (const Node& node : program.nodes) segments.push_back(node.segment);
  return segments;
}

int find(const List& list, Verb verb, NodeId node) {
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i].verb == verb && list[i].node == node) return static_cast<int>(i);
  ADD_FAILURE() << name(verb) << " of node " << node << " is not there";
  return 0;
}

TEST(Recompute, SegmentsEndWithTheirChunkAndAtNodesThatKeep) {
  Program program = recompute_whole(harness::chain_example(8), 3);  // embed, eight blocks, loss
  EXPECT_THAT(segments_of(program), ElementsAre(0, 0, 0, 1, 1, 1, 2, 2, 2, -1));
  program = harness::chain_example(8);
  recompute_each(program, {1, 2, 3, 5, 6, 7, 8});
  join_segments(program, 2);
  EXPECT_THAT(segments_of(program), ElementsAre(-1, 0, 0, 1, -1, 2, 2, 3, 3, -1));
  EXPECT_THAT(segments_of(recompute_whole(harness::tied_example(3, 6), 4)),
              ElementsAre(0, 0, 0, 1, 1, 2, 2, -1));
  EXPECT_EQ(recomputation_text(program), "7 of 10 nodes whole in 4 segments");
}

TEST(Recompute, WhatHasNoBackwardNeverRunsAgain) {
  const Program program = recompute_whole(harness::jepa_example(), 2);
  for (const Node& node : program.nodes)
    EXPECT_EQ(node.segment < 0, node.no_grad || node.loss) << node.name;
  EXPECT_NO_THROW(validate(compile(program, mesh::Mesh(), {})));
  Program broken = harness::jepa_example();
  for (Node& node : broken.nodes)
    if (node.no_grad) node.segment = 0;
  EXPECT_THROW(check_program(broken), Error);
}

TEST(Recompute, SegmentsCannotSpanStages) {
  Program program = harness::tied_example(2);
  for (Node& node : program.nodes) node.segment = node.loss ? -1 : 0;
  try {
    check_program(program);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("cannot be recomputed in segment 0, which begins with embed"));
  }
}

// embed, block0 | block1, block2: four lines run again.
PlanSet two_segments() {
  return compile(recompute_whole(harness::chain_example(3), 2), mesh::Mesh(), {.micro_batches = 2});
}

TEST(Recompute, ValidatorNamesWhatIsMissingOrMoved) {
  const PlanSet good = two_segments();
  ASSERT_EQ(refusal(good), "");
  const auto moved = [&](int from, int to) {  // to before the line that was at `to`
    PlanSet plan = good;
    List& list = plan.lists[0];
    const Instr line = list[from];
    list.erase(list.begin() + from);
    list.insert(list.begin() + (to > from ? to - 1 : to), line);
    return refusal(plan);
  };
  const List& list = good.lists[0];
  const int embed = find(list, Verb::kRecompute, 0), block0 = find(list, Verb::kRecompute, 1);
  const int back0 = find(list, Verb::kBackward, 1), back2 = find(list, Verb::kBackward, 3);
  const int block1 = find(list, Verb::kRecompute, 2), loss = find(list, Verb::kBackward, 4);
  ASSERT_EQ(block0, embed + 1);
  PlanSet dropped = good;
  dropped.lists[0].erase(dropped.lists[0].begin() + embed);
  for (Instr& line : dropped.lists[0])
    for (int& earlier : line.after) earlier -= earlier > embed;
  EXPECT_THAT(refusal(dropped), HasSubstr("embed.out of micro-batch 0 is gone"));
  EXPECT_THAT(moved(block0, embed), HasSubstr("embed.out of micro-batch 0 is gone"));
  const auto between = [](const char* name) {
    return HasSubstr(
        fmt::format("is between recompute {} mb=0 and the backward of its segment", name));
  };
  EXPECT_THAT(moved(block1, loss), between("block1"));
  EXPECT_THAT(moved(embed, block1), between("embed"));
  EXPECT_THAT(moved(embed, back2), between("block2"));
  EXPECT_THAT(moved(block0, back0 + 1),
              HasSubstr("no forward or recompute has kept what it needs"));
  PlanSet keeps = good;
  keeps.lists[0][find(list, Verb::kForward, 1)].keep = true;
  EXPECT_THAT(refusal(keeps), HasSubstr("keeps, but segment 0 is recomputed"));
  PlanSet free = good;
  free.program.nodes[0].segment = -1;
  EXPECT_THAT(refusal(free), HasSubstr("the node is in no segment"));
}

TEST(Recompute, InnerValuesAreWrittenAgainAndGoAgain) {
  const PlanSet plan = two_segments();
  const List& list = plan.lists[0];
  const std::vector<Retirement> all = retirements(plan.program, list);
  const auto value = [&](const char* name) {
    return static_cast<ValueId>(std::ranges::find(plan.program.values, name, &Value::name) -
                                plan.program.values.begin());
  };
  const auto retired = [&](const char* name) {
    std::vector<Verb> verbs;
    for (std::size_t i = 0; i < list.size(); ++i)
      if (std::ranges::count(all[i].values, std::pair(value(name), 0)) > 0)
        verbs.push_back(list[i].verb);
    return verbs;
  };
  EXPECT_THAT(retired("embed.out"), ElementsAre(Verb::kForward, Verb::kRecompute));
  EXPECT_THAT(retired("block0.out"), ElementsAre(Verb::kRecompute));
  EXPECT_THAT(retired("block2.out"), ElementsAre(Verb::kForward));
  EXPECT_THAT(all[find(list, Verb::kRecompute, 0)].writes, ElementsAre(value("embed.out")));
  EXPECT_THAT(all[find(list, Verb::kRecompute, 1)].writes, testing::IsEmpty());
}

TEST(Recompute, PartsShowInTextCostAndMemory) {
  Program program = harness::chain_example(3);
  for (NodeId node : {1, 2, 3})
    program.nodes[node].parts = {
        {.name = "a", .saved_bytes = 20000, .work_bytes = 7000, .flops = 1e6},
        {.name = "b", .saved_bytes = 8000, .work_bytes = 8000, .flops = 2e6, .whole = true}};
  program.nodes[1].exchanges = {{.kind = Exchange::kAllGather,
                                 .axes = mesh::Axis::kTp,
                                 .bytes = 64,
                                 .backward = 1,
                                 .part = "a"}};
  const auto peak = [](const Program& one) {
    return memory_account(compile(one, mesh::Mesh(), {}), 0)
        .peak[static_cast<std::size_t>(MemoryKind::kActivations)];
  };
  const std::int64_t all = peak(program);
  EXPECT_EQ(times(program.nodes[1], program.nodes[1].exchanges[0], Verb::kBackward), 0);
  Program some = program;
  EXPECT_EQ(recompute_part(some, {0, 1, 2}, "a"), 2);
  EXPECT_EQ(recompute_part(some, {1}, "b"), 1);
  EXPECT_EQ(recompute_part(some, {1}, "c"), 0);
  EXPECT_EQ(recomputation_text(some), "a in 2, b in 1");
  EXPECT_EQ(times(some.nodes[1], some.nodes[1].exchanges[0], Verb::kBackward), 1);
  EXPECT_EQ(flops(some.nodes[1], Verb::kBackward), flops(program.nodes[1], Verb::kBackward) + 3e6);
  EXPECT_EQ(recomputation_cost(some), 4e6);
  EXPECT_EQ(peak(some), all - 2 * 20000 - 8000);  // at the loss
  const PlanSet plan = compile(some, mesh::Mesh({.tp = 2}), {});
  EXPECT_THAT(print(plan),
              HasSubstr(" part=a:20000:7000:1000000:again part=b:8000:8000:2000000:whole:again"));
  EXPECT_THAT(print(plan), HasSubstr(" all_gather=tp:64:0+1:a\n"));
  EXPECT_EQ(parse(print(plan)), plan);
  some.nodes[2].parts[1].saved_bytes = 1 << 20;
  EXPECT_THROW(check_program(some), Error);
}

TEST(Recompute, APartCanTakeTheHalvesOfABackward) {
  Program program = harness::chain_example(1);
  Node& block = program.nodes[1];
  block.split = BackwardSplit{.kept_bytes = 100, .weight_flops = 10};
  block.parts = {{.name = "a", .saved_bytes = 10, .whole = false},
                 {.name = "b", .saved_bytes = 10, .whole = true}};
  const GradientFlow flow = gradient_flow(program);
  EXPECT_TRUE(splits_backward(program, flow, 1));
  recompute_part(program, {1}, "a");
  EXPECT_TRUE(splits_backward(program, flow, 1));
  recompute_part(program, {1}, "b");
  EXPECT_FALSE(splits_backward(program, flow, 1));
}

// A chain whose nodes differ, with parts.
Program random_chain(std::uint64_t seed, int blocks, bool alike) {
  std::mt19937_64 random(seed);
  const auto upto = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most)) + 1;
  };
  Program program = harness::chain_example(blocks);
  for (Node& node : program.nodes) {
    if (alike && &node > &program.nodes[1] && !node.loss) {
      node.parts = program.nodes[1].parts;
      node.saved_bytes = program.nodes[1].saved_bytes;
      continue;
    }
    node.parts.clear();
    node.saved_bytes = upto(90000);
    const std::int64_t count = node.loss ? 1 : upto(2);
    for (std::int64_t part = 0; part < count; ++part) {
      node.parts.push_back({.name = fmt::format("p{}", part),
                            .saved_bytes = upto(900000),
                            .work_bytes = upto(40000),
                            .flops = node.flops * static_cast<double>(upto(80)) / 100});
      node.saved_bytes += node.parts.back().saved_bytes;
    }
  }
  return program;
}

std::int64_t peak_of(const PlanSet& plan) {
  std::int64_t peak = 0;
  for (int rank = 0; rank < plan.mesh.world(); ++rank)
    peak = std::max(peak, memory_account(plan, rank).peak_total);
  return peak;
}

struct Found {
  double cost = 0;
  std::int64_t peak = 0;
};

// Every choice there is.
std::vector<Found> all_choices(const Program& program,
                               const std::function<PlanSet(const Program&)>& compiled) {
  std::vector<Found> all;
  const std::vector<NodeId> able = recomputable(program);
  std::function<void(Program, std::size_t)> choose = [&](const Program& so_far, std::size_t at) {
    if (at == so_far.nodes.size()) {
      all.push_back({.cost = recomputation_cost(so_far), .peak = peak_of(compiled(so_far))});
      return;
    }
    const auto id = static_cast<NodeId>(at);
    for (unsigned chosen = 0; chosen < 1U << so_far.nodes[at].parts.size(); ++chosen) {
      Program next = so_far;
      for (std::size_t part = 0; part < next.nodes[at].parts.size(); ++part)
        next.nodes[at].parts[part].recomputed = (chosen >> part & 1U) != 0;
      choose(next, at + 1);
    }
    if (!contains(able, id)) return;
    Program next = so_far;
    recompute_each(next, {id});
    choose(next, at + 1);
  };
  choose(program, 0);
  return all;
}

TEST(CheapestWithin, IsTheBestOfAllChoices) {
  int fitted = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const bool stages = seed % 3 == 2;
    const Program chain = random_chain(seed, 3, seed % 2 == 0);
    const mesh::Mesh mesh({.pp = stages ? 2 : 1});
    const Recipe recipe{.micro_batches = stages ? 4 : 2};
    const Program program = stages ? place(chain, {3, 2}, {.ranks = 2, .chunks = 1}) : chain;
    const auto compiled = [&](const Program& one) { return compile(one, mesh, recipe); };
    std::vector<NodeId> nodes(program.nodes.size());
    std::iota(nodes.begin(), nodes.end(), 0);
    const std::vector<Found> all = all_choices(program, compiled);
    const auto [least, most] = std::ranges::minmax(all, {}, &Found::peak);
    for (int step = -1; step <= 5; ++step) {
      const std::int64_t bytes = least.peak + (most.peak - least.peak) * step / 5;
      double best = std::numeric_limits<double>::infinity();
      for (const Found& one : all)
        if (one.peak <= bytes) best = std::min(best, one.cost);
      SCOPED_TRACE(
          fmt::format("seed {} budget {} of {} to {}", seed, bytes, least.peak, most.peak));
      try {
        const Program chosen = cheapest_within(program, nodes, {bytes}, compiled);
        EXPECT_LE(peak_of(compiled(chosen)), bytes);
        EXPECT_NO_THROW(validate(compiled(chosen)));
        EXPECT_NEAR(recomputation_cost(chosen), best, 1e-9 * best);
        ++fitted;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kOutOfMemory);
        EXPECT_EQ(best, std::numeric_limits<double>::infinity()) << error.what();
        EXPECT_THAT(error.what(), HasSubstr("with all of them, stage"));
        ++refused;
      }
    }
  }
  EXPECT_EQ(fitted, 12 * 6);
  EXPECT_EQ(refused, 12);
}

TEST(CheapestWithin, KeepsEverythingWhereThatFitsAndTouchesOnlyItsNodes) {
  const Program program = random_chain(1, 4, true);
  const auto compiled = [](const Program& one) { return compile(one, mesh::Mesh(), {}); };
  const std::int64_t all = peak_of(compiled(program));
  EXPECT_EQ(cheapest_within(program, {1, 2, 3, 4}, {all}, compiled), program);
  const Program chosen = cheapest_within(program, {2, 3}, {all - 1}, compiled);
  for (NodeId node : {0, 1, 4, 5}) EXPECT_EQ(chosen.nodes[node], program.nodes[node]);
  EXPECT_THROW(cheapest_within(program, {}, {all - 1}, compiled), Error);
}

TEST(CheapestWithin, GoesByMeasuredSeconds) {
  Program program = random_chain(3, 2, true);
  for (Node& node : program.nodes)
    node.seconds = NodeSeconds{.forward = node.name == "block0" ? 1.0 : 2.0};
  const auto compiled = [](const Program& one) { return compile(one, mesh::Mesh(), {}); };
  const Program chosen =
      cheapest_within(program, {1, 2}, {peak_of(compiled(program)) - 1}, compiled);
  EXPECT_EQ(chosen.nodes[2], program.nodes[2]);
  EXPECT_NE(chosen.nodes[1], program.nodes[1]);
}

// A hundred layers on eight stages, whatever the schedule does to halves.
TEST(CheapestWithin, FitsLargePipelinesUnderEverySchedule) {
  for (int number = 0; number < schedules::kScheduleCount; ++number) {
    const auto schedule = static_cast<schedules::Schedule>(number);
    Program program = random_chain(7, 98, true);
    for (Node& node : program.nodes)
      node.split = BackwardSplit{.kept_bytes = node.saved_bytes / 2, .weight_flops = node.flops};
    const Pipeline pipeline{.placement = schedules::placement_of(schedule),
                            .ranks = 8,
                            .chunks = schedules::chunks_of(schedule, 0)};
    const Recipe recipe{.micro_batches = 16, .schedule = schedule};
    const mesh::Mesh mesh({.pp = 8});
    program = place(program, balance(program, pipeline, recipe), pipeline);
    const auto compiled = [&](const Program& one) { return compile(one, mesh, recipe); };
    std::vector<NodeId> nodes(program.nodes.size());
    std::iota(nodes.begin(), nodes.end(), 0);
    const std::int64_t all = peak_of(compiled(program));
    const std::int64_t least = peak_of(compiled(recompute_whole(program)));
    const std::int64_t bytes = (all + least) / 2;
    const Program chosen = cheapest_within(program, nodes, {bytes}, compiled);
    EXPECT_LE(peak_of(compiled(chosen)), bytes) << schedules::name(schedule);
    EXPECT_LT(recomputation_cost(chosen), 0.8 * recomputation_cost(recompute_whole(program)))
        << schedules::name(schedule);
    if (schedule == schedules::Schedule::k1F1B) {
      EXPECT_EQ(chosen, cheapest_within(program, nodes, {bytes}, compiled));
    }
  }
}

}  // namespace
}  // namespace trireme::plan::recompute_test
