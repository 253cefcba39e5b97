// A job in phases, as a user runs it: in order, on layouts of their own, once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "tests/apps/program.h"
#include "tests/apps/run_files.h"

#if TRIREME_HAS_WORKER

namespace trireme::app::phases_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Phases : public ::testing::Test {
 protected:
  Phases() {
    std::string text;
    for (int i = 0; i < 2000; ++i) text += "the oars of a trireme pull in three banks, ";
    desk_.write("text.txt", text);
    desk_.write("job.yaml",
                "model: {layers: 2, hidden: 32, heads: 2, seq_len: 16}\n"
                "data: {path: text.txt}\n"
                "run: {steps: 30, global_batch: 8}\n"
                "optim: {lr: 3e-3}\n"
                "phases:\n"
                "  - {name: early}\n"
                "  - {name: late, run: {steps: 4}, optim: {lr: 1e-4}, parallel: {zero: 3}}\n"
                "  - {name: fresh, from: nothing, run: {steps: 2}}\n");
  }
  double loss(const std::string& phase, std::size_t step) const {
    return lines_of(desk_ / ("out/" + phase + "/metrics.jsonl")).at(step)["loss"].get<double>();
  }

  Desk desk_;
};

TEST_F(Phases, FollowOneAnotherFromWeightToWeight) {
  const Result first = desk_.run({"train", "job.yaml", "--ranks", "2", "--out", "out"});
  ASSERT_EQ(first.exit_code, 0) << first.out << first.err;
  EXPECT_LT(loss("late", 0), loss("early", 0) - 1);
  EXPECT_NEAR(loss("fresh", 0), loss("early", 0), 0.3);
  const Result again = desk_.run({"train", "job.yaml", "--ranks", "2", "--out", "out"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("late (2 of 3): done before"));
  EXPECT_THAT(again.out, Not(HasSubstr("step 1")));
}

TEST_F(Phases, GoOnWhereOneFailed) {
  desk_.write("broken.yaml",
              read_file(desk_ / "job.yaml") + "  - {name: last, model: {weights: nowhere}}\n");
  const Result broken = desk_.run({"train", "broken.yaml", "--out", "out"});
  EXPECT_NE(broken.exit_code, 0);
  EXPECT_THAT(broken.err, HasSubstr("nowhere"));
  EXPECT_THAT(broken.out, HasSubstr("phase     last ended with"));
  const Result one = desk_.run({"train", "job.yaml", "--phase", "late", "--steps", "2"});
  EXPECT_EQ(one.exit_code, 0) << one.err;
}

TEST_F(Phases, AreCheckedBeforeTheFirstIsRun) {
  desk_.write("broken.yaml",
              read_file(desk_ / "job.yaml") + "  - {name: last, parallel: {dp_shard: 7}}\n");
  const Result broken = desk_.run({"train", "broken.yaml", "--ranks", "2", "--out", "out"});
  EXPECT_EQ(broken.exit_code, 2);
  EXPECT_THAT(broken.err, HasSubstr("phase last: "));
  EXPECT_FALSE(std::filesystem::exists(desk_ / "out"));
  EXPECT_THAT(desk_.run({"explain", "job.yaml"}).err, HasSubstr("early, late, fresh"));
  EXPECT_EQ(desk_.run({"explain", "job.yaml", "--phase", "late"}).exit_code, 0);
}

// The recipe, two steps a phase: every phase begins with its weights under another layout, and one that ended early, here
// whichever it is, is taken up where it was.
TEST_F(Phases, OfHvjepaHandOverAndResume_slow) {
  const Path recipe = Path(TRIREME_SOURCE_DIR) / "recipes/hvjepa_tiny_phases.yaml";
  const std::string shorter =
      std::regex_replace(read_file(recipe), std::regex("steps: \\d+, global_batch: \\d+"),
                         "steps: 2, global_batch: 8");
  const std::string at_once =
      std::regex_replace(shorter, std::regex("warmup_steps: \\d+"), "warmup_steps: 0");
  desk_.write("five.yaml",
              "checkpoint: {every: 1}\n" +
                  std::regex_replace(at_once, std::regex("micro_batch: (8|16)"), "micro_batch: 4"));
  const std::vector<std::string> command = {"train", "five.yaml", "--ranks", "2", "--out", "five"};
  const Result first = desk_.run(command);
  ASSERT_EQ(first.exit_code, 0) << first.out << first.err;
  const std::vector<std::string> phases = {"pretrain", "align", "probe", "refine", "act"};
  for (const std::string& phase : phases) {
    const Path run = desk_ / "five" / phase;
    const std::vector<std::string> whole = trace(run);
    std::filesystem::remove_all(run / "checkpoints/step-2");
    const Result again = desk_.run(command);
    EXPECT_EQ(again.exit_code, 0) << phase << again.err;
    EXPECT_THAT(again.out, HasSubstr("step 2/2")) << phase;
    EXPECT_EQ(trace(run), whole) << phase;
  }
}

}  // namespace
}  // namespace trireme::app::phases_test

#endif
