#include "trireme/plan/text/draw.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/plan/cases.h"
#include "tests/plan/pipelines.h"
#include "trireme/base/error.h"
#include "trireme/plan/compile/fold.h"
#include "trireme/plan/passes/compile.h"

namespace trireme::plan::draw_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Fold, CountsUpDownAndNests) {
  EXPECT_THAT(fold({"F(b0)", "F(b1)", "F(b2)"}), ElementsAre("3x[F(b0..2)]"));
  EXPECT_THAT(fold({"B(b2)", "G(b2)", "B(b1)", "G(b1)", "x"}),
              ElementsAre("2x[B(b2..1) G(b2..1)]", "x"));
  EXPECT_THAT(fold({"L0", "F0(b0)", "F0(b1)", "L1", "F1(b0)", "F1(b1)"}),
              ElementsAre("2x[L0..1 2x[F0..1(b0..1)]]"));
  EXPECT_THAT(fold({"a", "b", "c3", "d3"}), ElementsAre("a", "b", "c3", "d3"));
  EXPECT_THAT(fold({"b0", "b2", "b5"}), ElementsAre("b0", "b2", "b5"));
  EXPECT_THAT(fold({}), ElementsAre());
}

TEST(Explain, FitsAScreenForEveryExample) {
  const StepNumbers numbers{.step_s = 0.0123,
                            .comp_busy_s = 0.01,
                            .exposed_comm_s = 1e-4,
                            .bubble_fraction = 0.1,
                            .sent_bytes = 3e6};
  int count = 0;
  const auto check = [&](const PlanSet& plan) {
    const std::string text = explain_text(plan, 0, memory_account(plan, 0), numbers);
    std::istringstream lines(text);
    int rows = 0;
    for (std::string line; std::getline(lines, line); ++rows) EXPECT_LE(line.size(), 110u) << line;
    EXPECT_LE(rows, 50) << text;
    EXPECT_THAT(text, HasSubstr("step 12.3 ms"));
    ++count;
  };
  for_each_case({1, 4}, {1, 2}, {1, 8}, {1}, [&](const Case& one) { check(compile(one)); });
  // As large as a real model on 4 ranks.
  check(compile(harness::tied_example(1, 48), mesh::Mesh({.dp_shard = 4}),
                {.zero = 3, .micro_batches = 16}));
  EXPECT_GT(count, 0);
}

// Pipelines show their stages and their schedule, as many as there is room for.
TEST(Explain, PipelinesFitAScreen) {
  for (const auto& [p, m] : {std::pair{2, 4}, {4, 8}, {8, 32}, {64, 512}})
    for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zb_h1", "zb_v", "dualpipe_v"}) {
      const PlanSet plan = pipeline(*schedules::schedule_of(schedule), p, m);
      StepNumbers numbers{.step_s = 0.0123, .bound = std::string(110, 'x')};
      numbers.stages.resize(static_cast<std::size_t>(p), {.busy_s = 1, .idle_s = 1});
      const std::string text = explain_text(plan, 0, memory_account(plan, 0), numbers);
      std::istringstream lines(text);
      int rows = 0;
      for (std::string line; std::getline(lines, line); ++rows)
        EXPECT_LE(line.size(), 110u) << line;
      EXPECT_LE(rows, 50) << text;
      for (const int stage : {0, p - 1})
        EXPECT_THAT(text, HasSubstr(fmt::format("\n  stage {} ", stage)));
    }
}

TEST(Explain, StagesShowWhatTheyHoldAndHowLongTheyWork) {
  const PlanSet plan = pipeline(schedules::Schedule::kZbV, 2, 4);
  std::vector<StageNumbers> stages(2, {.busy_s = 0.75, .idle_s = 0.25, .peak_bytes = 3 << 20});
  EXPECT_THAT(
      stage_table(plan, stages, 8),
      HasSubstr("\n  0           3 stem..block0, block3                    3,072  50.0%      "
                "3.0 MiB  750.0 ms  250.0 ms  25.0%\n"));
}

TEST(Explain, NamesWhatMatters) {
  const PlanSet plan = compile(harness::tied_example(1, 6), mesh::Mesh({.dp_shard = 4}),
                               {.zero = 3, .micro_batches = 4});
  const std::string text = explain_text(plan, 0, memory_account(plan, 0), {.step_s = 1.5});
  EXPECT_THAT(text, HasSubstr("pp1.dp_replicate1.dp_shard4.cp1.tp1"));
  EXPECT_THAT(text, HasSubstr("\n  block0..5  "));
  EXPECT_THAT(text, HasSubstr("unshard over dp_shard"));
  EXPECT_THAT(text, HasSubstr("ZeRO-3, 4 micro-batches"));
  EXPECT_THAT(text, HasSubstr("step 1.50 s"));
}

TEST(Explain, JsonCarriesTheSameNumbers) {
  const PlanSet plan = compile(harness::chain_example(), mesh::Mesh({.dp_shard = 2}), {.zero = 1});
  const MemoryAccount account = memory_account(plan, 0);
  const Json json = explain_json(plan, 0, account, {.step_s = 0.5});
  EXPECT_EQ(json["world"], 2);
  EXPECT_EQ(json["mesh"]["dp_shard"], 2);
  EXPECT_EQ(json["memory"]["model_states_bytes"], account.model_states);
  EXPECT_EQ(json["units"].size(), plan.program.units.size());
  EXPECT_EQ(json["communication"][0]["what"], "unshard over dp_shard");
  EXPECT_EQ(json["communication"][0]["count"], 5);
  EXPECT_EQ(json["forecast"]["step_s"], 0.5);
}

TEST(Explain, RankTextHasEveryLine) {
  const PlanSet plan = compile(harness::chain_example(), mesh::Mesh({.dp_shard = 2}), {.zero = 3});
  const std::string text = rank_text(plan, 1);
  EXPECT_EQ(std::ranges::count(text, '\n'), static_cast<std::ptrdiff_t>(plan.lists[0].size()) + 2);
  EXPECT_THAT(text, HasSubstr("reduce_grads norm mb=0 over=dp_shard scatter after="));
}

}  // namespace
}  // namespace trireme::plan::draw_test
