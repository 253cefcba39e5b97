// What leaves memory: every plan that offloads is proven, and whatever is taken out of it is noticed.
#include "trireme/plan/offload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/plan/cases.h"
#include "tests/plan/mutations.h"
#include "trireme/base/error.h"
#include "trireme/plan/check/validate.h"
#include "trireme/plan/compile/forward_only.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/text/draw.h"
#include "trireme/plan/text/text.h"

namespace trireme::plan::offload_test {
namespace {

using testing::HasSubstr;

std::vector<Offload> offloads() {
  constexpr Tier kDisk = Tier::kNvme;
  return {{.optimizer = kDisk},
          {.optimizer = Tier::kHost, .ratio = 0.5, .prefetch = 0},
          {.params = kDisk},
          {.grads = kDisk, .prefetch = 2},
          {.optimizer = kDisk, .params = Tier::kHost, .grads = kDisk},
          {.optimizer = kDisk, .params = kDisk, .grads = kDisk, .prefetch = 2}};
}

bool averages(const Program& program) {
  return std::ranges::any_of(program.units, [](const Unit& unit) { return unit.ema_of >= 0; });
}

// Every example under every row, with each of these away; values too where nodes run again.
void for_each_offload(const std::vector<int>& micro_batches,
                      const std::function<void(const Case&)>& visit) {
  for_each_case({1, 2}, {1}, micro_batches, {1}, [&](Case one) {
    for (const Offload& offload : offloads()) {
      if (averages(one.program)) continue;
      one.recipe.offload = offload;
      // Two nodes ahead is as far back as the examples go.
      if (one.segments > 0 && offload.prefetch < 2)
        one.recipe.offload.activations = offload.optimizer;
      for (DType compute : {DType::kF32, DType::kBF16}) {
        one.recipe.compute = compute;
        visit(one);
      }
    }
  });
}

// One in so many of these, which mixes all that they vary.
void for_some_offloads(const std::function<void(const Case&)>& visit) {
  int number = 0;
  for_each_offload({1, 3}, [&](const Case& one) {
    if (number++ % 13 == 0) visit(one);
  });
}

std::string name(const Case& one) {
  const Offload& offload = one.recipe.offload;
  return one.name() + fmt::format(" {} optimizer {} params {} grads {} activations {} ahead {}",
                                  trireme::name(one.recipe.compute), name(offload.optimizer),
                                  name(offload.params), name(offload.grads),
                                  name(offload.activations), offload.prefetch);
}

TEST(Offload, EveryPlanIsProvenAndItsTextReadsBack) {
  int count = 0;
  for_each_offload({1, 2, 3, 4, 6}, [&](Case one) {
    for (bool canonical : {true, false}) {
      one.recipe.canonical = canonical;
      SCOPED_TRACE(name(one));
      const PlanSet plan = compile(one);
      ASSERT_NO_THROW(validate(plan));
      ASSERT_EQ(parse(print(plan)), plan);
      ++count;
    }
    ASSERT_NO_THROW(validate(compile(forward_only(one.program), one.mesh, one.recipe)));
  });
  EXPECT_EQ(count, 11 * 4 * 2 * 5 * 3 * 6 * 2 * 2);
}

TEST(Offload, NoLineCanBeMissing) {
  for_some_offloads([](const Case& one) {
    const PlanSet plan = compile(one);
    ASSERT_EQ(refusal(plan), "") << name(one);
    for_each_line(plan, [&](std::size_t l, std::size_t i) {
      PlanSet broken = plan;
      drop(broken.lists[l], static_cast<int>(i));
      EXPECT_NE(refusal(broken), "") << name(one) << ": list " << l << " without line " << i << " "
                                     << line_text(plan.program, plan.lists[l][i]);
    });
  });
}

TEST(Offload, NoLineCanRunTwice) {
  for_some_offloads([](const Case& one) {
    const PlanSet plan = compile(one);
    for_each_line(plan, [&](std::size_t l, std::size_t i) {
      PlanSet broken = plan;
      repeat(broken.lists[l], static_cast<int>(i));
      EXPECT_NE(refusal(broken), "") << name(one) << ": list " << l << " with line " << i
                                     << " twice, " << line_text(plan.program, plan.lists[l][i]);
    });
  });
}

TEST(Offload, EveryAfterIsNeeded) {
  for_some_offloads([](const Case& one) {
    const PlanSet plan = compile(one);
    for_each_line(plan, [&](std::size_t l, std::size_t i) {
      for (std::size_t a = 0; a < plan.lists[l][i].after.size(); ++a) {
        PlanSet broken = plan;
        std::vector<int>& after = broken.lists[l][i].after;
        after.erase(after.begin() + static_cast<std::ptrdiff_t>(a));
        EXPECT_THAT(refusal(broken), HasSubstr("does not wait for line"))
            << name(one) << ": list " << l << " line " << i << " "
            << line_text(plan.program, plan.lists[l][i]);
      }
    });
  });
}

PlanSet everything_away(int prefetch = 1, int blocks = 4) {
  return compile(harness::chain_example(blocks), mesh::Mesh(),
                 {.offload = {.optimizer = Tier::kNvme,
                              .params = Tier::kNvme,
                              .grads = Tier::kNvme,
                              .prefetch = prefetch}});
}

// Prefetch + 1 units for their steps, and one more that is being written.
TEST(Offload, StepsHoldFewUnits) {
  Program program = harness::chain_example(8);
  for (Unit& unit : program.units) unit.numel = 1 << 16;
  for (int prefetch : {0, 1, 3}) {
    const PlanSet plan = compile(
        program, mesh::Mesh(),
        {.compute = DType::kBF16, .offload = {.optimizer = Tier::kNvme, .prefetch = prefetch}});
    EXPECT_EQ(memory_account(plan, 0).peak[static_cast<std::size_t>(MemoryKind::kStaging)],
              (prefetch + 2) * std::int64_t{3} * (4 << 16));
    EXPECT_EQ(memory_account(plan, 0).persistent[static_cast<std::size_t>(MemoryKind::kOptimizer)],
              0);
  }
}

TEST(Offload, UnitsOfANodeAreThereForIt) {
  Program program = harness::chain_example(8);
  for (Unit& unit : program.units) unit.numel = 1 << 16;
  for (int prefetch : {0, 1, 2}) {
    const PlanSet plan =
        compile(forward_only(program), mesh::Mesh(),
                {.zero = 0, .offload = {.params = Tier::kNvme, .prefetch = prefetch}});
    // The last node uses two units.
    EXPECT_EQ(memory_account(plan, 0).peak[static_cast<std::size_t>(MemoryKind::kStaging)],
              (prefetch + 2) * (4 << 16));
  }
}

TEST(Offload, MemoryComesBackAsItWas) {
  for_each_offload({1, 2, 3, 4, 6}, [](Case one) {
    for (bool canonical : {true, false}) {
      one.recipe.canonical = canonical;
      SCOPED_TRACE(name(one));
      const PlanSet plan = compile(one);
      for (int stage = 0; stage < static_cast<int>(plan.lists.size()); ++stage) {
        const int rank = stage * plan.mesh.world() / static_cast<int>(plan.lists.size());
        const MemoryAccount account = memory_account(plan, rank);
        for (const MemoryPoint& point : account.at_line)
          for (std::int64_t bytes : point) ASSERT_GE(bytes, 0);
      }
    }
  });
}

// With everything away a model many times the memory leaves a few units in it.
TEST(Offload, PeaksDoNotGrowWithTheModel) {
  const auto peak = [](int blocks) {
    const PlanSet plan = compile(recompute_whole(harness::chain_example(blocks)), mesh::Mesh(),
                                 {.offload = {.optimizer = Tier::kNvme,
                                              .params = Tier::kNvme,
                                              .grads = Tier::kNvme,
                                              .activations = Tier::kNvme}});
    return memory_account(plan, 0).peak_total;
  };
  EXPECT_EQ(peak(16), peak(64));
}

TEST(Offload, RatioTakesWholeUnits) {
  Program program = harness::chain_example(8);
  for (Unit& unit : program.units) unit.numel = 1 << 16;
  for (double ratio : {0.25, 0.5, 0.75, 1.0}) {
    const Away away(program, {.offload = {.optimizer = Tier::kNvme, .ratio = ratio}});
    double gone = 0;
    for (UnitId unit = 0; unit < static_cast<UnitId>(program.units.size()); ++unit)
      gone += away(unit, TensorKind::kStates);
    EXPECT_NEAR(gone / static_cast<double>(program.units.size()), ratio, 0.1) << ratio;
  }
}

// Wherever the largest unit lies, on every stage.
TEST(Offload, RatioIsKeptForUnitsOfAnySize) {
  for (int pp : {1, 2})
    for (std::size_t large = 0; large < 10; ++large) {
      Program program = harness::chain_example(10);
      program.units.clear();
      for (int unit = 0; unit < 10; ++unit)
        program.units.push_back({.name = fmt::format("unit{}", unit), .numel = 100});
      program.units[large].numel = pp == 1 ? 1350 : 600;  // three fifths of its stage
      for (std::size_t node = 0; node < program.nodes.size(); ++node) {
        program.nodes[node].units.clear();
        if (node < 10) program.nodes[node].units.push_back(static_cast<UnitId>(node));
        program.nodes[node].stage = node < 5 ? 0 : pp - 1;
      }
      for (double ratio : {0.2, 0.5, 0.7, 0.9}) {
        const Away away(program, {.offload = {.optimizer = Tier::kNvme, .ratio = ratio}});
        double all = 0, gone = 0;
        for (int stage = 0; stage < pp; ++stage) {
          double stage_all = 0, stage_gone = 0;
          for (UnitId unit : units_of_stage(program, stage)) {
            const auto numel = static_cast<double>(program.units[unit].numel);
            stage_all += numel;
            if (away(unit, TensorKind::kStates)) stage_gone += numel;
          }
          EXPECT_LE(stage_gone, ratio * stage_all) << pp << " " << large << " " << ratio;
          // Short of it by less than the smallest unit, unless the largest one has no place.
          if (ratio > 0.6) {
            EXPECT_GT(stage_gone, ratio * stage_all - 100) << pp << " " << large << " " << ratio;
          }
          all += stage_all;
          gone += stage_gone;
        }
        EXPECT_DOUBLE_EQ(away.states_share(), gone / all);
      }
    }
}

TEST(Offload, ExplainTellsTheShareThatLeaves) {
  Program program = harness::chain_example(8);
  for (Unit& unit : program.units) unit.numel = 1 << 16;
  const PlanSet plan =
      compile(program, mesh::Mesh(), {.offload = {.optimizer = Tier::kHost, .ratio = 0.55}});
  const auto units = static_cast<double>(program.units.size());
  EXPECT_THAT(explain_text(plan, 0, memory_account(plan, 0), {}),
              HasSubstr(fmt::format("offload   {:.3g}% of the optimizer (ratio 0.55) on host",
                                    100 * std::floor(0.55 * units) / units)));
}

TEST(Offload, HostMemoryIsCounted) {
  const auto host = [](const Offload& offload) {
    const PlanSet plan = compile(harness::chain_example(), mesh::Mesh(), {.offload = offload});
    return memory_account(plan, 0).persistent[static_cast<std::size_t>(MemoryKind::kHost)];
  };
  std::int64_t states = 0, params = 0;
  for (const Unit& unit : harness::chain_example().units) {
    states += 2 * whole_pages(4 * unit.numel);
    params += whole_pages(4 * unit.numel);
  }
  EXPECT_EQ(host({.optimizer = Tier::kHost}), states);
  EXPECT_EQ(host({.params = Tier::kHost}), params);
  EXPECT_EQ(host({.grads = Tier::kHost}), params);
  EXPECT_EQ(host({.optimizer = Tier::kNvme}), 0);
}

int find(const List& list, Verb verb, TensorKind tensors) {
  const auto found = std::ranges::find_if(
      list, [&](const Instr& line) { return line.verb == verb && line.tensors == tensors; });
  EXPECT_NE(found, list.end());
  return static_cast<int>(found - list.begin());
}

TEST(Offload, MistakesAreNamed) {
  const auto broken = [&](const std::function<void(List&)>& change) {
    PlanSet plan = everything_away();
    change(plan.lists[0]);
    return refusal(plan);
  };
  const auto without = [](Verb verb, TensorKind tensors) {
    return [=](List& list) { drop(list, find(list, verb, tensors)); };
  };
  EXPECT_THAT(broken(without(Verb::kReload, TensorKind::kParams)),
              HasSubstr("parameters of unit embed are away"));
  EXPECT_THAT(broken(without(Verb::kReload, TensorKind::kStates)),
              HasSubstr("states of unit embed are away"));
  EXPECT_THAT(broken(without(Verb::kOffload, TensorKind::kStates)),
              HasSubstr("3 units would be in memory for their steps, 2 may be"));
  EXPECT_THAT(broken(without(Verb::kReload, TensorKind::kGrads)),
              HasSubstr("its gradient is away"));
  EXPECT_THAT(broken(without(Verb::kOffload, TensorKind::kGrads)), HasSubstr("has not left"));
  EXPECT_THAT(broken([](List& list) {
                list[find(list, Verb::kReload, TensorKind::kStates)].lane = Lane::kComp;
              }),
              HasSubstr("needs h2d"));
  // All states at once do not fit.
  PlanSet plan = everything_away();
  plan.recipe.offload.prefetch = 0;
  EXPECT_THAT(refusal(plan), HasSubstr("2 units would be in memory for their steps, 1 may be"));
}

std::string usage(const Program& program, const mesh::Mesh& mesh, const Recipe& recipe) {
  try {
    check_activations_leave(compile(program, mesh, recipe));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST(Offload, WhatCannotLeaveIsRefused) {
  EXPECT_THAT(
      usage(harness::chain_example(), mesh::Mesh(), {.offload = {.activations = Tier::kNvme}}),
      HasSubstr("recompute more nodes (recompute.policy"));
  EXPECT_THAT(usage(recompute_whole(harness::chain_example()), mesh::Mesh(),
                    {.offload = {.activations = Tier::kTp}}),
              HasSubstr("set parallel.tp"));
  EXPECT_THAT(usage(harness::jepa_example(), mesh::Mesh(), {.offload = {.params = Tier::kHost}}),
              HasSubstr("so both stay in memory"));
  EXPECT_THAT(usage(harness::chain_example(), mesh::Mesh(),
                    {.offload = {.optimizer = Tier::kNvme, .ratio = 1e-6}}),
              HasSubstr("less than every unit's share"));
}

// Values that all tp ranks have: each keeps its part.
TEST(Offload, TensorRanksShareValuesOut) {
  Program program = harness::chain_example(4);
  for (Value& value : program.values) value.whole = value.differentiable;
  const mesh::Mesh mesh({.tp = 4});
  const auto peak = [&](Tier tier) {
    const PlanSet plan =
        compile(recompute_whole(program), mesh, {.offload = {.activations = tier}});
    EXPECT_EQ(refusal(plan), "");
    EXPECT_EQ(parse(print(plan)), plan);
    return memory_account(plan, 0).peak[static_cast<std::size_t>(MemoryKind::kActivations)];
  };
  EXPECT_LT(peak(Tier::kTp), peak(Tier::kNone));
  EXPECT_LT(peak(Tier::kNvme), peak(Tier::kTp));
}

}  // namespace
}  // namespace trireme::plan::offload_test
