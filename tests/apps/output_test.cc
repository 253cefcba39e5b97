// Commands whose output cannot be written do not end with 0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/program.h"

namespace trireme::app::output_test {
namespace {

using ::testing::HasSubstr;

class FullOutput : public ::testing::Test {
 protected:
  FullOutput() {
    desk_.write("text.txt", std::string(4000, 'x') + "\n");
    desk_.write("job.yaml",
                "model: {layers: 1, hidden: 32, heads: 2, seq_len: 16}\ndata: {path: text.txt}\n"
                "run: {steps: 2, global_batch: 8, micro_batch: 2}\n");
    desk_.write("sweep.yaml", "job: job.yaml\nruns: {plain: {}}\nmetrics: [loss]\n");
  }
  // A line of the shell; `trireme` in it is the program.
  Result shell(const std::string& line) const {
    return desk_.run(
        {"-c", "trireme() { " + std::string(TRIREME_BIN_DIR) + "/trireme \"$@\"; }; " + line},
        "/bin/sh");
  }
  void expect_refused(const std::string& command, const std::string& where = "> /dev/full") const {
    const Result result = shell(command + " " + where);
    EXPECT_EQ(result.exit_code, 3) << command << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr("standard output could not be written")) << command;
  }

  Desk desk_;
};

TEST_F(FullOutput, OfCommandsThatNeedNoTensorIsAnError) {
  ASSERT_EQ(shell("trireme data prepare text.txt --out data").exit_code, 0);
  for (const char* command :
       {"trireme --help", "trireme --version", "trireme version", "trireme train --help",
        "trireme train --help-config", "trireme explain job.yaml --ranks 2",
        "trireme explain job.yaml --format json", "trireme explain job.yaml --memory",
        "trireme data prepare text.txt --out other", "trireme data inspect data",
        "trireme data verify data", "trireme data synth text synthetic --count 3",
        "trireme stack $$"})
    expect_refused(command);
}

TEST_F(FullOutput, SaysWhy) {
  EXPECT_EQ(shell("trireme version > /dev/full").err,
            "trireme: data: standard output could not be written: No space left on device; send it "
            "to a place that takes it\n");
  expect_refused("trireme version", ">&-");
}

// What a closed stream's number is given to must not get what is printed.
TEST_F(FullOutput, OfAClosedStreamGoesIntoNoFile) {
  ASSERT_EQ(shell("trireme data prepare text.txt --out open").exit_code, 0);
  EXPECT_EQ(shell("trireme data prepare text.txt --out closed >&- 2>&-").exit_code, 3);
  for (const auto& entry : std::filesystem::directory_iterator(desk_ / "open"))
    EXPECT_EQ(read_file(entry.path()), read_file(desk_ / "closed" / entry.path().filename()))
        << entry.path();
}

TEST_F(FullOutput, WhoeverHasReadEnoughIsNoError) {
  EXPECT_EQ(shell("trireme train --help-config | head -1 > first; cat first > /dev/null").exit_code,
            0);
}

#if TRIREME_HAS_WORKER

TEST_F(FullOutput, OfCommandsThatComputeIsAnError) {
  ASSERT_EQ(shell("trireme train job.yaml --out run").exit_code, 0);
  for (const char* command :
       {"trireme checkpoint ls run", "trireme checkpoint inspect run",
        "trireme checkpoint verify run", "trireme checkpoint diff run run",
        "trireme checkpoint reshard run resharded --to tp=2",
        "trireme generate --checkpoint run --prompt xxx --tokens 3",
        "trireme diff job.yaml --layouts tp=2 --steps 1", "trireme sweep sweep.yaml --out sweep"})
    expect_refused(command);
}

// A run trains and saves all the same; also under a launcher, for which all is done by then.
TEST_F(FullOutput, OfARunIsAnErrorWhenItIsDone) {
  int number = 0;
  for (const std::string command :
       {"trireme train job.yaml --ranks 2", "trireme train job.yaml --nproc 2",
        "trireme launch --nproc-per-node 2 -- train job.yaml"}) {
    const std::string run = "run" + std::to_string(number++);
    expect_refused(command + " --out " + run);
    EXPECT_TRUE(std::filesystem::exists(desk_ / (run + "/checkpoints/step-2"))) << command;
  }
}

#endif

}  // namespace
}  // namespace trireme::app::output_test
