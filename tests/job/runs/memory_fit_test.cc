// The largest micro-batch that fits: by forecast, then by a trial.
#include "trireme/job/runs/memory_fit.h"

#include <gmock/gmock.h>

#include <map>

#include "tests/formats/scratch.h"
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
    EXPECT_EQ(error.kind(), ErrorKind::kOutOfMemory);
    EXPECT_THAT(error.what(), HasSubstr("no run.micro_batch fits"));
  }
  EXPECT_EQ(trials, 0);
  EXPECT_THROW(check_memory({.job = job_, .model = one.model, .plan = one.plan}, {}, machine_),
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
  constexpr std::int64_t kPacked = 3'300'000;  // buffers of products, of each rank
  EXPECT_EQ(library(processes).library, 70 * kMega + kPacked);
  EXPECT_EQ(library(threads).library, 40 * kMega + kPacked);
  EXPECT_TRUE(library(threads).measured);
}

TEST_F(MicroBatch, FailsAsItsTrialFails) {
  EXPECT_THROW(find([](const Planned&) -> std::optional<std::int64_t> {
                 fail(ErrorKind::kInternal, "the trial broke");
               }),
               Error);
}

// Two ranks under a machine that has so much left.
class Start : public ::testing::Test {
 protected:
  Start() { job_.model.seq_len = 32; }

  std::optional<std::string> check(std::int64_t left, int local_rank = 0) {
    root_.write("proc/meminfo", fmt::format("MemAvailable: {} kB\n", left / 1024));
    const Place place{.launcher = Launcher::kTorchrun,
                      .rank = local_rank,
                      .world = 2,
                      .local_rank = local_rank,
                      .local_world = 2};
    const Planned planned = plan_job(job_, 2, {.vocab = 256});
    need_ = host_need(planned, place, {});
    return check_memory(planned, place, {}, root_.path());
  }

  config::Job job_;
  HostNeed need_;
  formats::Scratch root_;
};

TEST_F(Start, RefusesWhatCannotFitAndWarnsOfWhatMayNot) {
  const std::int64_t much = std::int64_t{1} << 40;
  EXPECT_EQ(check(much), std::nullopt);
  EXPECT_EQ(need_.ranks, 2);
  EXPECT_GT(need_.certain, 2 * 16 * (std::int64_t{1} << 10)) << "sixteen bytes a parameter";
  EXPECT_GT(need_.bytes, need_.certain);
  EXPECT_EQ(check(need_.bytes + 1024), std::nullopt);
  const auto warning = check(need_.bytes - 1024);
  ASSERT_TRUE(warning);
  EXPECT_THAT(*warning, HasSubstr("2 ranks of this host need"));
  EXPECT_TRUE(check(need_.certain + 1024)) << "the rest is a forecast";
  EXPECT_EQ(check(need_.certain - 2048, 1), std::nullopt) << "one rank of a host speaks for it";
  try {
    check(need_.certain - 2048);
    ADD_FAILURE() << "started";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kOutOfMemory);
    EXPECT_THAT(error.what(), HasSubstr("for parameters, optimizer states and gradients"));
    EXPECT_THAT(error.what(), HasSubstr("run.memory_limit"));
  }
  job_.run.memory_limit.count = much;
  EXPECT_TRUE(check(need_.certain - 2048)) << "a person has said how much a rank may need";
}

}  // namespace
}  // namespace trireme::runs::memory_fit_test
