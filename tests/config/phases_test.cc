// Jobs in phases: what each phase is, and what is refused.
#include <gmock/gmock.h>

#include "tests/config/error_of.h"
#include "trireme/config/parse.h"

namespace trireme::config::phases_test {
namespace {

using ::testing::HasSubstr;

TEST(Phases, TakeTheCommonSectionsAndTheirOwn) {
  const auto phases = parse_phases(
      "model: {layers: 3}\nrun: {steps: 10, global_batch: 4}\n"
      "phases:\n"
      "  - {name: first}\n"
      "  - {name: second, run: {steps: 20}, parallel: {zero: 3}}\n"
      "  - {name: third, from: first}\n"
      "  - {name: fourth, from: nothing}\n"
      "  - {name: fifth, model: {weights: runs/other}}\n",
      "job.yaml");
  ASSERT_EQ(phases.size(), 5u);
  EXPECT_EQ(phases[0].job.run.steps, 10);
  EXPECT_EQ(phases[0].from, std::nullopt);
  EXPECT_EQ(phases[1].job.run.steps, 20);
  EXPECT_EQ(phases[1].job.run.global_batch, 4);
  EXPECT_EQ(phases[1].job.model.layers, 3);
  EXPECT_EQ(phases[1].job.parallel.zero, 3);
  EXPECT_EQ(phases[1].from, 0);
  EXPECT_EQ(phases[2].job.parallel.zero, 0);
  EXPECT_EQ(phases[2].from, 0);
  EXPECT_EQ(phases[3].from, std::nullopt);
  EXPECT_EQ(phases[4].from, std::nullopt);
  EXPECT_EQ(phase_names(phases), "first, second, third, fourth, fifth");
}

TEST(Phases, AreOneWithoutANameWhereAFileHasNone) {
  const auto phases = parse_phases("run: {steps: 7}", "job.yaml");
  ASSERT_EQ(phases.size(), 1u);
  EXPECT_EQ(phases[0].name, "");
  EXPECT_EQ(phases[0].job, parse_job("run: {steps: 7}", "job.yaml"));
}

TEST(Phases, AreNamedWhereOneJobIsNeeded) {
  EXPECT_THAT(usage_error_of([] { parse_job("phases: [{name: a}, {name: b}]", "job.yaml"); }),
              HasSubstr("choose one of a, b with --phase"));
}

TEST(Phases, AreRefusedInOneLine) {
  const auto error = [](const std::string& list) {
    return usage_error_of([&] { parse_phases("phases: " + list, "job.yaml"); });
  };
  EXPECT_THAT(error("3"), HasSubstr("needs a list of maps"));
  EXPECT_THAT(error("[]"), HasSubstr("needs a list of maps"));
  EXPECT_THAT(error("[first]"), HasSubstr("a phase is a map"));
  EXPECT_THAT(error("[{run: {steps: 1}}]"), HasSubstr("a phase needs a name"));
  EXPECT_THAT(error("[{name: ../up}]"), HasSubstr("needs a word"));
  EXPECT_THAT(error("[{name: a}, {name: a}]"), HasSubstr("two phases have the name a"));
  EXPECT_THAT(error("[{name: a}, {name: b, from: c}]"),
              HasSubstr("phase b begins from c, which is not an earlier phase; these are: a"));
  EXPECT_THAT(error("[{name: a, from: b}]"), HasSubstr("there is none"));
  EXPECT_THAT(error("[{name: a}, {name: b, from: a, model: {weights: x}}]"),
              HasSubstr("leave one out"));
  for (const char* list : {"[{name: a, optim: {from_weights: true}}]",
                           "[{name: a}, {name: b, from: nothing, optim: {from_weights: true}}]"})
    EXPECT_THAT(error(list), HasSubstr("optim.from_weights=true, but begins with random weights"));
  EXPECT_THAT(error("[{name: a, stages: {}}]"), HasSubstr("unknown section stages"));
  EXPECT_THAT(error("[{name: a, run: {stepss: 3}}]"), HasSubstr("unknown key run.stepss"));
}

}  // namespace
}  // namespace trireme::config::phases_test
