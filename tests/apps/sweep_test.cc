// trireme sweep, as a user runs it: several runs at a time, one table, and the rest of it later.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/apps/program.h"
#include "trireme/base/json.h"

#if TRIREME_HAS_WORKER

namespace trireme::app::sweep_test {
namespace {

using ::testing::HasSubstr;

class Sweeps : public ::testing::Test {
 protected:
  Sweeps() {
    std::string text;
    for (int i = 0; i < 2000; ++i) text += "the oars of a trireme pull in three banks, ";
    desk_.write("text.txt", text);
    desk_.write("job.yaml",
                "model: {layers: 1, hidden: 32, heads: 2, seq_len: 16}\n"
                "data: {path: text.txt}\nrun: {steps: 3, global_batch: 4}\n");
  }
  Desk desk_;
};

TEST_F(Sweeps, CompareRunsInOneTable) {
  desk_.write("sweep.yaml",
              "job: job.yaml\nruns: {a: {}, b: {optim.lr: 1e-2}}\nmetrics: [loss, nothing]\n");
  const Result first = desk_.run({"sweep", "sweep.yaml", "--jobs", "2", "--out", "out"});
  ASSERT_EQ(first.exit_code, 0) << first.out << first.err;
  const Json table = parse_json(read_file(desk_ / "out/sweep.json"), "sweep.json");
  ASSERT_EQ(table.size(), 2u);
  EXPECT_EQ(table[1]["name"], "b");
  EXPECT_EQ(table[1]["ended"], "done");
  EXPECT_EQ(table[1]["metrics"]["step"], 3);
  EXPECT_NE(table[0]["metrics"]["loss"], table[1]["metrics"]["loss"]);
  const Result again = desk_.run({"sweep", "sweep.yaml", "--out", "out"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("a: done before"));
}

TEST_F(Sweeps, GoOnPastARunThatFails) {
  desk_.write("sweep.yaml",
              "job: job.yaml\nruns: {a: {model.weights: nowhere}, b: {}}\nmetrics: [loss]\n");
  const Result result = desk_.run({"sweep", "sweep.yaml", "--out", "out"});
  EXPECT_EQ(result.exit_code, 3) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("nowhere"));
  EXPECT_THAT(read_file(desk_ / "out/sweep.json"), HasSubstr("\"ended\": \"done\""));
}

TEST_F(Sweeps, AreCheckedBeforeTheFirstRun) {
  desk_.write("sweep.yaml", "job: job.yaml\nruns: {a: {}, b: {model.heads: 3}}\n");
  const Result result = desk_.run({"sweep", "sweep.yaml", "--out", "out"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("run b: "));
  EXPECT_FALSE(std::filesystem::exists(desk_ / "out"));
}

}  // namespace
}  // namespace trireme::app::sweep_test

#endif
