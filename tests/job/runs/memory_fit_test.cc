// The largest micro-batch that fits: by forecast, then by a trial.
#include "trireme/job/runs/memory_fit.h"

#include <gmock/gmock.h>

#include <map>

#include "trireme/base/error.h"

namespace trireme::runs::memory_fit_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kMega = 1'000'000;

class MicroBatch : public ::testing::Test {
 protected:
  MicroBatch() {
    job_.model.seq_len = 32;
    job_.run.global_batch = 8;
    job_.run.find_micro_batch = true;
    job_.run.memory_limit.count = 1000 * kMega;
  }

  config::Job find(const MemoryTrial& trial) {
    return with_found_micro_batch(job_, {}, {.vocab = 256}, machine_, trial,
                                  [&](std::int64_t candidate, const std::string& what) {
                                    tried_.push_back(candidate);
                                    said_ = what;
                                  });
  }

  config::Job job_;
  std::optional<planner::Calibration> machine_;
  std::vector<std::int64_t> tried_;
  std::string said_;
};

TEST_F(MicroBatch, IsTheLargestWhoseTrialFits) {
  const config::Job found = find([](const Planned& planned) -> std::optional<std::int64_t> {
    // The trial runs the job as it is printed.
    EXPECT_EQ(config::parse_job(config::print_yaml(planned.job), "trial").run.micro_batch,
              planned.job.run.micro_batch);
    if (planned.job.run.micro_batch == 8) return std::nullopt;
    return planned.job.run.micro_batch == 4 ? 2000 * kMega : kMega;
  });
  EXPECT_EQ(found.run.micro_batch, 2);
  EXPECT_FALSE(found.run.find_micro_batch);
  EXPECT_THAT(tried_, ElementsAre(8, 4, 2));
  EXPECT_THAT(said_, HasSubstr("taken"));
}

TEST_F(MicroBatch, IsNotTriedWhereTheForecastIsTooMuch) {
  const Planned one = plan_job(job_, 1, {.vocab = 256});
  job_.run.memory_limit.count = 1;
  int trials = 0;
  try {
    find([&](const Planned&) -> std::optional<std::int64_t> { return ++trials; });
    FAIL() << "fits into a byte";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNoRoom);
    EXPECT_THAT(error.what(), HasSubstr("no run.micro_batch fits"));
  }
  EXPECT_EQ(trials, 0);
  EXPECT_THROW(check_room({.job = job_, .model = one.model, .plan = one.plan}, {}, machine_),
               Error);
}

// What the process holds besides is the machine's, measured once, and not counted twice among threads.
TEST_F(MicroBatch, ACalibratedMachineSaysWhatAProcessHolds) {
  const Planned planned = plan_job(job_, 2, {.vocab = 256});
  const Place threads{.launcher = Launcher::kThreads, .world = 2},
      processes{.launcher = Launcher::kProcesses, .world = 2};
  const auto library = [&](const Place& place) {
    return footprints(planned, place, machine_).at(0);
  };
  EXPECT_EQ(library(processes).library, 2 * library(threads).library);
  EXPECT_FALSE(library(threads).measured);
  machine_.emplace().machine.gpu.core = planner::Core{.process = 70e6, .process_rank = 10e6};
  EXPECT_EQ(library(processes).library, 70 * kMega);
  EXPECT_EQ(library(threads).library, 40 * kMega);
  EXPECT_TRUE(library(threads).measured);
}

TEST_F(MicroBatch, FailsAsItsTrialFails) {
  EXPECT_THROW(find([](const Planned&) -> std::optional<std::int64_t> {
                 fail(ErrorKind::kInternal, "the trial broke");
               }),
               Error);
}

}  // namespace
}  // namespace trireme::runs::memory_fit_test
