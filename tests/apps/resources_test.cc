// Runs that have too little memory, too few processes or too few descriptors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/program.h"

#if TRIREME_HAS_WORKER

#include <fstream>

#include "tests/apps/run_files.h"
#include "tests/harness/needs.h"
#include "trireme/base/clock.h"

namespace trireme::app::resources_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A control group of version 1 or 2 with one limit, for the processes of a shell that joins it.
class ControlGroup {
 public:
  ControlGroup(const std::string& controller, const std::string& limit_v1,
               const std::string& limit_v2, const std::string& value) {
    const Path root = "/sys/fs/cgroup", first = root / controller;
    const bool v1 = fs::exists(first / "cgroup.procs");
    path_ = (v1 ? first : root) / ("trireme-test-" + std::to_string(::getpid()));
    std::error_code cause;
    fs::create_directory(path_, cause);
    if (cause) {
      problem_ = path_.string() + ": " + cause.message();
      return;
    }
    std::ofstream limit(path_ / (v1 ? limit_v1 : limit_v2));
    if (!(limit << value << std::flush)) problem_ = path_.string() + " takes no limit";
  }
  ~ControlGroup() {
    std::error_code ignored;
    for (int look = 0; look < 100 && !fs::remove(path_, ignored); ++look) ::usleep(50'000);
  }
  ControlGroup(const ControlGroup&) = delete;
  ControlGroup& operator=(const ControlGroup&) = delete;

  // Why there is none.
  const std::string& problem() const { return problem_; }
  std::string join() const { return "echo $$ > " + (path_ / "cgroup.procs").string() + " && "; }

 private:
  Path path_;
  std::string problem_;
};

class Resources : public ::testing::Test {
 protected:
  Resources() {
    std::string text;
    for (int i = 0; i < 2000; ++i) text += "value[" + std::to_string(i) + "];\n";
    desk_.write("text.txt", text);
    desk_.write("job.yaml",
                "model: {layers: 1, hidden: 32, heads: 2, seq_len: 16}\ndata: {path: text.txt}\n"
                "run: {steps: 2, global_batch: 8, micro_batch: 2}\n");
  }
  Result shell(const std::string& before, const std::string& command) const {
    fs::remove_all(desk_ / "run");
    // Of what the test has inherited nothing counts against a limit.
    const std::string close = "for d in 3 4 5 6 7 8 9; do eval \"exec $d>&-\"; done; ";
    return desk_.run(
        {"-c", close + before + "exec " + std::string(TRIREME_BIN_DIR) + "/trireme " + command},
        "/bin/sh");
  }

  Desk desk_;
};

constexpr char kThreads[] = "train job.yaml --ranks 2 --out run";
constexpr char kProcesses[] = "train job.yaml --nproc 2 --out run";
constexpr char kLaunch[] = "launch --nproc-per-node 2 -- train job.yaml --out run";

TEST_F(Resources, TooFewDescriptorsAreNoBugOfTrireme) {
  for (const char* command : {kThreads, kProcesses, kLaunch})
    for (int limit = 4; limit <= 26; limit += 2) {
      const Stopwatch clock;
      const Result result = shell("ulimit -n " + std::to_string(limit) + " && ", command);
      expect_one_line(result.err);
      EXPECT_THAT(result.exit_code, AnyOf(2, 3)) << limit << " of " << command;
      EXPECT_THAT(result.err, HasSubstr("Too many open files")) << limit << " of " << command;
      EXPECT_LT(clock.seconds(), 25) << limit << " of " << command;
    }
}

TEST_F(Resources, TooFewProcessesEndARunWithALineWithinSeconds) {
  for (const char* limit : {"1", "3", "4", "6", "7"}) {
    const ControlGroup group("pids", "pids.max", "pids.max", limit);
    TRIREME_NEEDS("control groups", group.problem());
    for (const char* command : {kThreads, kProcesses, kLaunch}) {
      const Stopwatch clock;
      const Result result = shell(group.join(), command);
      EXPECT_EQ(result.exit_code, 2) << limit << " of " << command << ": " << result.err;
      EXPECT_THAT(result.err, HasSubstr("too few processes or threads"))
          << limit << " of " << command;
      EXPECT_LT(clock.seconds(), 10) << limit << " of " << command;
    }
  }
}

// Control: so many are enough.
TEST_F(Resources, SomeProcessesAreEnough) {
  const ControlGroup group("pids", "pids.max", "pids.max", "24");
  TRIREME_NEEDS("control groups", group.problem());
  for (const char* command : {kThreads, kProcesses, kLaunch})
    EXPECT_EQ(shell(group.join(), command).exit_code, 0) << command;
}

// Two ranks of 766 MiB each.
constexpr char kLarge[] = " --set model.hidden=1024 model.layers=3";

class LittleMemory : public Resources {
 protected:
  ControlGroup group_{"memory", "memory.limit_in_bytes", "memory.max",
                      std::to_string(std::int64_t{350} << 20)};
};

TEST_F(LittleMemory, AJobThatCannotFitIsRefusedAtItsStart) {
  TRIREME_NEEDS("control groups", group_.problem());
  for (const char* command : {kThreads, kProcesses, kLaunch}) {
    const Result result = shell(group_.join(), std::string(command) + kLarge);
    EXPECT_EQ(result.exit_code, 6) << command << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr("2 ranks of this host need 1.")) << command;
    EXPECT_THAT(result.err, HasSubstr("of the 350.0 MiB that its control group allows")) << command;
    expect_one_line(result.err);
    EXPECT_FALSE(fs::exists(desk_ / "run/job.lock.yaml")) << command;
  }
}

// Where the key says how much a rank may need, the start only warns.
TEST_F(LittleMemory, AKillByTheKernelIsReportedWithNeedAndLimit) {
  TRIREME_NEEDS("control groups", group_.problem());
  for (const char* command : {kProcesses, kLaunch}) {
    const Result result =
        shell(group_.join(), std::string(command) + kLarge + " run.memory_limit=1GiB");
    EXPECT_EQ(result.exit_code, 6) << command << ": " << result.err;
    EXPECT_THAT(result.out, HasSubstr("the kernel may kill one")) << command;
    EXPECT_THAT(result.err, HasSubstr("the kernel killed rank ")) << command;
    EXPECT_THAT(result.err, HasSubstr("for lack of memory")) << command;
    EXPECT_THAT(result.err, HasSubstr("2 ranks of this host need 1.")) << command;
    EXPECT_THAT(result.err, HasSubstr("its control group allows 350.0 MiB")) << command;
    EXPECT_THAT(result.err, Not(HasSubstr("restarting"))) << command;
    const std::vector<Json> events = lines_of(desk_ / "run/events.jsonl");
    ASSERT_EQ(events.size(), 1u) << command;
    EXPECT_EQ(events[0]["class"], "rank killed");
    EXPECT_THAT(events[0]["cause"].get<std::string>(), HasSubstr("for lack of memory"));
  }
}

}  // namespace
}  // namespace trireme::app::resources_test

#endif
