// A rank that is stuck inside an operation of all: it is named, and not the one who waits for its data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/apps/launched.h"
#include "tests/apps/run_files.h"

namespace trireme::app::stuck_test {
namespace {

#if TRIREME_HAS_WORKER

using ::testing::HasSubstr;
using ::testing::SizeIs;

// Two ranks, the second of which sleeps at a chunk of a reduce_scatter; after so many steps that an agent, which looks ten
// times a second, has seen more than one of them.
class Stuck : public ::testing::Test {
 protected:
  Stuck() {
    desk_.write("text.txt", std::string(4000, 'x') + "\n");
    desk_.write("job.yaml",
                "model: {layers: 1, hidden: 16, heads: 2, seq_len: 16}\ndata: {path: text.txt}\n"
                "parallel: {zero: 3}\noptim: {schedule: constant}\n"
                "run: {steps: 400, global_batch: 4, micro_batch: 2, eval_every: -1}\n");
  }
  Running launch(const std::string& transport, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"launch",
                                      "--nproc-per-node",
                                      "2",
                                      "--max-restarts",
                                      "0",
                                      "--",
                                      "train",
                                      "job.yaml",
                                      "--out",
                                      transport,
                                      "--allow-fault-injection",
                                      "--faults",
                                      "rank=1 step=200 what=reduce_scatter chunk=0: delay=90000ms"};
    words.insert(words.end(), more.begin(), more.end());
    return Running(desk_.path(), std::string(TRIREME_BIN_DIR) + "/trireme", words, "launch",
                   {{"TRIREME_TRANSPORT", transport}});
  }

  const Desk desk_;
};

TEST_F(Stuck, IsNamedAndNotItsVictim) {
  for (const char* transport : {"shm", "tcp", "gloo"}) {
    SCOPED_TRACE(transport);
    const Running running = launch(transport, {"--set", "run.hang_report_s=2"});
    const Path told = desk_ / transport / "events.jsonl";
    ASSERT_TRUE(soon([&] { return std::filesystem::exists(told); }));
    ::sleep(3);  // who waits is silent for as long
    const std::vector<Json> events = lines_of(told);
    ASSERT_THAT(events, SizeIs(1));
    EXPECT_EQ(events[0]["class"], "rank silent");
    EXPECT_EQ(events[0]["rank"], 1);
    EXPECT_THAT(std::string(events[0]["cause"]), HasSubstr("inside reduce_scatter"));
  }
}

// Where nobody looks, the one who did not answer is blamed, not the one who says so.
TEST_F(Stuck, IsBlamedWhereItDidNotAnswerInTime) {
  Running running =
      launch("shm", {"--set", "run.hang_report_s=0", "--set", "parallel.comm_timeout_s=3"});
  const Result result = running.wait();
  EXPECT_EQ(result.exit_code, 4);
  const std::vector<Json> blamed = lines_of(desk_ / "shm/events.jsonl");
  ASSERT_THAT(blamed, SizeIs(1)) << result.err;
  EXPECT_EQ(blamed[0]["rank"], 1);
  EXPECT_THAT(std::string(blamed[0]["cause"]), HasSubstr("rank 1 did not answer rank 0"));
}

#endif

}  // namespace
}  // namespace trireme::app::stuck_test
