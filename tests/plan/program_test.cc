#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/harness/examples.h"
#include "tests/harness/recompute_whole.h"
#include "trireme/base/error.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/plan.h"
#include "trireme/plan/shard.h"

namespace trireme::plan::program_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> without_backward(const Program& program) {
  const GradientFlow flow = gradient_flow(program);
  std::vector<std::string> names;
  for (std::size_t n = 0; n < program.nodes.size(); ++n)
    if (!flow.node_has_backward[n]) names.push_back(program.nodes[n].name);
  return names;
}

TEST(GradientFlow, StopsBeforeWhatIsFrozen) {
  EXPECT_THAT(without_backward(harness::chain_example()), ElementsAre());
  EXPECT_THAT(without_backward(harness::vision_language_example()),
              ElementsAre("encoder0", "encoder1"));
  EXPECT_THAT(without_backward(harness::jepa_example()), ElementsAre("target0", "target1"));
  EXPECT_THAT(without_backward(harness::encoder_decoder_example()), ElementsAre());
}

TEST(GradientFlow, PassesThroughFrozenNodesTowardsTrainableOnes) {
  Program program = harness::chain_example();
  program.units[1].trainable = false;  // block0
  EXPECT_THAT(without_backward(program), ElementsAre());
  program.units[0].trainable = false;  // embed
  EXPECT_THAT(without_backward(program), ElementsAre("embed", "block0"));
}

TEST(GradientFlow, EndsBehindTheLastLoss) {
  Program program = harness::chain_example();
  program.nodes.back().loss = false;
  EXPECT_EQ(without_backward(program).size(), program.nodes.size());
  const GradientFlow flow = gradient_flow(program);
  EXPECT_EQ(std::ranges::count(flow.value_has_grad, true), 0);
}

TEST(CheckProgram, RefusesMalformedPrograms) {
  const auto refusal = [](const std::function<void(Program&)>& change) -> std::string {
    Program program = harness::chain_example();
    change(program);
    try {
      check_program(program);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal([](Program&) {}), "");
  EXPECT_THAT(refusal([](Program& p) { p.nodes[1].name = "embed"; }),
              HasSubstr("two nodes are named embed"));
  EXPECT_THAT(refusal([](Program& p) { p.units[1].name = "a b"; }), HasSubstr("not one word"));
  EXPECT_THAT(refusal([](Program& p) { p.nodes[1].reads = {77}; }), HasSubstr("names value 77"));
  EXPECT_THAT(refusal([](Program& p) { p.nodes[1].units = {1, 1}; }), HasSubstr("twice"));
  EXPECT_THAT(refusal([](Program& p) { p.nodes[1].writes = p.nodes[0].writes; }),
              HasSubstr("is written by"));
  EXPECT_THAT(refusal([](Program& p) { p.nodes[0].reads = p.nodes[1].writes; }),
              HasSubstr("before it is written"));
  EXPECT_THAT(refusal([](Program& p) { p.nodes.back().writes.clear(); }),
              HasSubstr("writes 0 values"));
  EXPECT_THAT(refusal([](Program& p) { p.nodes[1].loss = true; }), HasSubstr("a loss"));
  EXPECT_THAT(refusal([](Program& p) { p.nodes[1].joint = true; }), HasSubstr("joint and no loss"));
  EXPECT_THAT(refusal([](Program& p) {
                p.nodes.back().joint = true;
                p.nodes.back().units.push_back(0);
              }),
              HasSubstr("shares unit embed with embed"));
  EXPECT_THAT(refusal([](Program& p) { p.nodes[0].stage = 1; }), HasSubstr("stage"));
  EXPECT_THAT(refusal([](Program& p) { p.nodes.back().stage = 2; }), HasSubstr("stage"));
  EXPECT_THAT(refusal([](Program& p) { p.units[2].ema_of = 1; }), HasSubstr("must be frozen"));
  EXPECT_THAT(refusal([](Program& p) { p.units[0].ema_of = 1; }), HasSubstr("named before it"));
}

TEST(Compile, RefusesWhatItCannotTake) {
  const auto refusal = [](Program program, const mesh::Degrees& degrees,
                          const Recipe& recipe) -> std::string {
    try {
      compile(std::move(program), mesh::Mesh(degrees), recipe);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return error.what();
    }
    return "";
  };
  const Program chain = harness::chain_example();
  EXPECT_THAT(refusal(chain, {.pp = 2}, {}), HasSubstr("set pp to 1"));
  EXPECT_THAT(refusal(harness::tied_example(2), {}, {}), HasSubstr("set pp to 2"));
  EXPECT_THAT(refusal(harness::tied_example(2), {.pp = 2},
                      {.micro_batches = 2, .schedule = schedules::Schedule::kInterleaved}),
              HasSubstr("virtual stages"));
  EXPECT_THAT(refusal(chain, {}, {.zero = 4}), HasSubstr("zero is 4"));
  EXPECT_THAT(refusal(chain, {}, {.micro_batches = 0}), HasSubstr("0 micro-batches"));
  EXPECT_THAT(refusal(chain, {}, {.prefetch = -1}), HasSubstr("prefetch is -1"));
  for (const auto schedule : {schedules::Schedule::k1F1B, schedules::Schedule::kZbH1})
    EXPECT_THAT(
        refusal(harness::two_towers_example(), {}, {.micro_batches = 2, .schedule = schedule}),
        HasSubstr("set parallel.schedule=gpipe"));
  EXPECT_EQ(refusal(harness::two_towers_example(), {}, {.micro_batches = 1}), "");
  Program unused = chain;
  unused.units.push_back({.name = "idle", .numel = 4});
  EXPECT_THAT(refusal(unused, {}, {}), HasSubstr("unit idle is trainable"));
}

TEST(Shard, ChunksAndShardsFollowTheUnitAlone) {
  EXPECT_EQ(norm_chunk(0), 16);
  EXPECT_EQ(norm_chunk(4096 * 16 - 1), 16);
  EXPECT_EQ(norm_chunk(4096 * 48), 32);
  EXPECT_EQ(norm_chunk(std::int64_t{1} << 40), 65536);
  for (std::int64_t numel : {1, 15, 16, 17, 1000, 49984, 124439808})
    for (int n : {1, 2, 3, 4, 7, 64}) {
      const std::int64_t shard = shard_numel(numel, n);
      EXPECT_EQ(shard % norm_chunk(numel), 0);
      EXPECT_GE(shard * n, numel);
      EXPECT_LT((shard - norm_chunk(numel)) * n, numel);
    }
}

TEST(Retirements, DropValuesAtTheirLastReaderAndCompleteGradientsOnce) {
  const PlanSet plan =
      compile(recompute_whole(harness::tied_example(1)), mesh::Mesh(), {.micro_batches = 2});
  const List& list = plan.lists[0];
  const std::vector<Retirement> all = retirements(plan.program, list);
  ASSERT_EQ(all.size(), list.size());
  std::multiset<std::pair<int, int>> values, gradients, opened;
  for (std::size_t i = 0; i < list.size(); ++i) {
    for (const auto& piece : all[i].values) values.insert(piece);
    for (UnitId unit : all[i].opens) opened.insert({unit, list[i].mb});
    for (UnitId unit : all[i].gradients) {
      EXPECT_EQ(opened.count({unit, list[i].mb}), 1u) << "line " << i;
      gradients.insert({unit, list[i].mb});
    }
  }
  for (int mb = 0; mb < 2; ++mb) {
    for (ValueId value = 0; value < static_cast<ValueId>(plan.program.values.size()); ++value)
      EXPECT_EQ(values.count({value, mb}), 1u);
    for (UnitId unit = 0; unit < static_cast<UnitId>(plan.program.units.size()); ++unit)
      EXPECT_EQ(gradients.count({unit, mb}), 1u);
  }
  EXPECT_EQ(opened, gradients);
  // The tied embedding is first written by the backward of its last user.
  for (std::size_t i = 0; i < list.size(); ++i)
    if (std::ranges::find(all[i].opens, 0) != all[i].opens.end()) {
      EXPECT_EQ(list[i].node, static_cast<NodeId>(plan.program.nodes.size()) - 1);
    }
  // It is complete only with the backward of its first user.
  for (std::size_t i = 0; i < list.size(); ++i)
    if (std::ranges::find(all[i].gradients, 0) != all[i].gradients.end()) {
      EXPECT_EQ(plan.program.nodes[list[i].node].name, "embed");
    }
  // Recomputation reads its inputs again.
  const auto last_read = [&](const std::string& name) -> Verb {
    for (std::size_t i = list.size(); i-- > 0;)
      for (const auto& [value, mb] : all[i].values)
        if (plan.program.values[value].name == name) return list[i].verb;
    return Verb::kLoad;
  };
  EXPECT_EQ(last_read("tokens"), Verb::kRecompute);
  EXPECT_EQ(last_read("targets"), Verb::kForward);
}

TEST(Placement, FollowsUsers) {
  const Program tied = harness::tied_example(2);
  EXPECT_EQ(stage_count(tied), 2);
  EXPECT_THAT(stages_of_unit(tied, 0), ElementsAre(0, 1));
  EXPECT_THAT(inputs_of_stage(tied, 0), ElementsAre(0));
  EXPECT_THAT(inputs_of_stage(tied, 1), ElementsAre(1));
  Program jepa = harness::jepa_example();
  jepa.units.push_back(
      {.name = "average", .numel = jepa.units[0].numel, .trainable = false, .ema_of = 0});
  EXPECT_THAT(stages_of_unit(jepa, static_cast<UnitId>(jepa.units.size()) - 1), ElementsAre(0));
}

}  // namespace
}  // namespace trireme::plan::program_test
