// Checkpoints while a run goes on: what is written behind it, what a bad or slow disk does to it, what stays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "tests/harness/failing_files.h"
#include "tests/harness/watched_runs.h"
#include "trireme/formats/checkpoint_files.h"
#include "trireme/train/trainer.h"

namespace trireme::train::saving_test {
namespace {

using harness::FailingFiles;
using harness::FileFault;
using harness::Sets;
using harness::operator+;
using harness::Watch;
using testing::ElementsAre;
using testing::HasSubstr;
using Steps = std::set<std::int64_t>;

// A disk that syncs no file before open().
class SlowDisk : public FailingFiles {
 public:
  using FailingFiles::FailingFiles;
  int fsync(int file) override {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return open_; });
    return FailingFiles::fsync(file);
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

class Saving : public harness::WatchedRuns {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "line " + std::to_string(i * i) + " of a text\n";
    prepare("data", text);
  }

  // Two ranks, five steps, unless `sets` say otherwise.
  Ending run(const std::string& out, const Sets& sets, Watch& watch,
             os::FileSystem& files = os::real_file_system(),
             const std::atomic<int>* stop = nullptr) {
    const Sets few = {"run.steps=5", "checkpoint.every=2"};
    return WatchedRuns::run({.out = out, .sets = few + sets, .files = &files, .stop = stop}, watch);
  }
};

// Whatever a rank holds, and wherever: the copy is what would have been written.
TEST_F(Saving, BehindTrainingWritesTheSameBytes) {
  const std::vector<Sets> layouts = {{},
                                     {"parallel.zero=3"},
                                     {"optim.states=int8", "parallel.zero=1"},
                                     {"parallel.dp_shard=1", "parallel.tp=2"},
                                     {"parallel.dp_shard=1", "parallel.pp=2"},
                                     {"offload.optimizer=host"},
                                     {"offload.optimizer=nvme", "offload.params=nvme"}};
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    SCOPED_TRACE(harness::print(layouts[i]));
    Watch behind, at_once;
    const std::string a = fmt::format("behind{}", i), b = fmt::format("at_once{}", i);
    EXPECT_EQ(run(a, layouts[i] + Sets{"checkpoint.async=true"}, behind), Ending::kDone);
    EXPECT_EQ(run(b, layouts[i] + Sets{"checkpoint.async=false"}, at_once), Ending::kDone);
    EXPECT_EQ(behind.losses, at_once.losses);
    for (const int step : {2, 5}) {
      EXPECT_FALSE(shards(a, step).empty());
      EXPECT_EQ(shards(a, step), shards(b, step));
    }
    EXPECT_EQ(saved(b), (Steps{2, 4, 5}));
    ASSERT_EQ(at_once.checkpoints.size(), 3u);
    EXPECT_EQ(at_once.end.checkpoint, scratch_ / b / "checkpoints/step-5");
  }
}

// Steps go on while nothing is synced; what is due meanwhile is left out, told and counted.
TEST_F(Saving, ASlowDiskGetsFewerCheckpointsAndHoldsUpNoStep) {
  Watch watch, plain;
  SlowDisk disk(os::real_file_system());
  watch.at_step = [&](std::int64_t step) {
    if (step == 5) disk.open();
  };
  EXPECT_EQ(run("slow", {"checkpoint.async=true"}, watch, disk), Ending::kDone);
  EXPECT_EQ(run("plain", {}, plain), Ending::kDone);
  EXPECT_EQ(watch.losses, plain.losses);
  EXPECT_EQ(saved("slow"), (Steps{2, 5}));
  EXPECT_EQ(watch.end.checkpoints_skipped, 1);
  EXPECT_EQ(watch.end.checkpoints_failed, 0);
  ASSERT_EQ(watch.checkpoints.size(), 3u);
  EXPECT_EQ(watch.checkpoints[0].step, 4);
  EXPECT_THAT(watch.checkpoints[0].problem, HasSubstr("the previous one is still being written"));
  EXPECT_EQ(watch.checkpoints[1].step, 2);
  EXPECT_EQ(watch.checkpoints[1].problem, "");
  EXPECT_EQ(watch.checkpoints[2].step, 5);
}

// Control: written at once, the same disk holds up the step after a checkpoint.
TEST_F(Saving, ASlowDiskHoldsUpStepsWhereNothingIsWrittenBehindThem) {
  Watch watch;
  SlowDisk disk(os::real_file_system());
  std::atomic<std::int64_t> reached{0};
  watch.at_step = [&](std::int64_t step) { reached = step; };
  std::thread opens([&] {
    while (reached < 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_EQ(reached, 2);
    disk.open();
  });
  EXPECT_EQ(run("slow", {"checkpoint.async=false"}, watch, disk), Ending::kDone);
  opens.join();
  EXPECT_EQ(watch.end.checkpoints_skipped, 0);
}

// Of a step whose metrics cannot be written there is none; the next has all of them.
TEST_F(Saving, WhatWasToldIsWrittenBefore) {
  Watch watch;
  std::vector<std::int64_t> told;
  watch.before_checkpoint = [&] {
    told.push_back(watch.losses.rbegin()->first);
    if (told.size() == 1) fail(ErrorKind::kData, "metrics.jsonl: no room");
  };
  EXPECT_EQ(run("run", {}, watch), Ending::kDone);
  EXPECT_EQ(told, (std::vector<std::int64_t>{2, 4, 5}));
  EXPECT_EQ(saved("run"), (Steps{4, 5}));
  ASSERT_FALSE(watch.checkpoints.empty());
  EXPECT_THAT(watch.checkpoints[0].problem, HasSubstr("rank 0: metrics.jsonl: no room"));
}

TEST_F(Saving, AnInterruptWaitsForWhatIsUnderWay) {
  Watch watch;
  SlowDisk disk(os::real_file_system());
  std::atomic<int> stop = 0;
  watch.at_step = [&](std::int64_t step) {
    if (step == 2) stop = 15;  // seen by the next step
    if (step == 3) disk.open();
  };
  EXPECT_EQ(run("run", {"checkpoint.async=true"}, watch, disk, &stop), Ending::kInterrupted);
  EXPECT_EQ(saved("run"), (Steps{2, 3}));
}

// A step that ends the run does not take with it what is under way: every good step is saved or was told to be left out.
TEST_F(Saving, LossThatIsNoNumberLeavesWhatIsUnderWay) {
  class Sluggish : public FailingFiles {
   public:
    using FailingFiles::FailingFiles;
    int fsync(int file) override {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // many steps
      return FailingFiles::fsync(file);
    }
  };
  Watch watch;
  Sluggish disk(os::real_file_system());
  try {
    run("run",
        {"checkpoint.async=true", "checkpoint.every=1", "run.steps=40", "optim.lr=100",
         "optim.min_lr=100", "optim.weight_decay=100", "run.skip_non_finite=0"},
        watch, disk);
    ADD_FAILURE() << "went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNonFinite) << error.what();
  }
  Steps good, accounted = saved("run");
  EXPECT_FALSE(accounted.empty());
  for (const auto& [step, loss] : watch.losses) good.insert(step);
  for (const CheckpointMetrics& m : watch.checkpoints)
    if (m.directory.empty()) accounted.insert(m.step);
  EXPECT_EQ(accounted, good);
}

TEST_F(Saving, AFailureIsToldAndTheRunGoesOn) {
  Watch plain;
  ASSERT_EQ(run("plain", {}, plain), Ending::kDone);
  for (const char* async : {"true", "false"})
    for (const int nth : {0, 1, 3, 5}) {
      SCOPED_TRACE(fmt::format("async {}, call {}", async, nth));
      std::filesystem::remove_all(scratch_ / "run");
      Watch watch;
      FailingFiles files(os::real_file_system());
      watch.at_step = [&](std::int64_t step) {
        if (step == 2) files.fail(nth, FileFault::kError, ENOSPC);
      };
      EXPECT_EQ(run("run", {fmt::format("checkpoint.async={}", async)}, watch, files),
                Ending::kDone);
      EXPECT_EQ(watch.losses, plain.losses);
      EXPECT_FALSE(saved("run").contains(2));
      EXPECT_TRUE(saved("run").contains(5));
      EXPECT_EQ(shards("run", 5), shards("plain", 5));
      EXPECT_EQ(watch.end.checkpoints_failed, 1);
      const auto failed = std::ranges::find(watch.checkpoints, 2, &CheckpointMetrics::step);
      ASSERT_NE(failed, watch.checkpoints.end());
      EXPECT_TRUE(failed->directory.empty());
      EXPECT_THAT(failed->problem,
                  testing::AllOf(HasSubstr("checkpoint of step 2 not written, those before it are "
                                           "untouched: rank "),
                                 HasSubstr("No space left on device")));
    }
}

TEST_F(Saving, AFailureOfTheLastOneEndsTheRun) {
  Watch watch;
  FailingFiles files(os::real_file_system());
  watch.at_step = [&](std::int64_t step) {
    if (step == 5) files.fail(2, FileFault::kKill);
  };
  try {
    run("run", {"checkpoint.async=false"}, watch, files);
    ADD_FAILURE() << "ended well";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_THAT(error.what(), HasSubstr("checkpoint of step 5 not written"));
    EXPECT_THAT(error.what(), HasSubstr("fix that and resume"));
  }
  std::filesystem::remove_all(scratch_ / "run/checkpoints/step-5.tmp");  // nothing could be removed
  EXPECT_EQ(saved("run"), (Steps{2, 4}));
}

TEST_F(Saving, RetentionFollowsItsKeys) {
  const Sets always = {"run.steps=9", "checkpoint.every=1", "run.eval_every=1",
                       "checkpoint.async=false"};
  const auto kept = [&](const std::string& out, const Sets& sets, Watch& watch) {
    EXPECT_EQ(run(out, always + sets, watch), Ending::kDone);
    return saved(out);
  };
  Watch watch;
  EXPECT_EQ(kept("all", {}, watch).size(), 9u);
  EXPECT_EQ(kept("last", {"checkpoint.keep_last=2"}, watch), (Steps{8, 9}));
  EXPECT_EQ(kept("one", {"checkpoint.keep_last=1"}, watch), (Steps{8, 9})) << "never one alone";
  EXPECT_EQ(kept("every", {"checkpoint.keep_last=2", "checkpoint.keep_also=[4, 0]"}, watch),
            (Steps{4, 8, 9}));
  // Losses that rise in the end: the best is an early one.
  Watch rising;
  const Steps best = kept(
      "best",
      {"checkpoint.keep_last=2", "checkpoint.keep_also=[0, 1]", "optim.lr=0.5", "optim.min_lr=0.5"},
      rising);
  ASSERT_EQ(rising.evals.size(), 9u);
  const auto lowest =
      std::ranges::min_element(rising.evals, {}, [](const auto& eval) { return eval.second; });
  Steps expected = {8, 9};
  expected.insert(lowest->first);
  EXPECT_EQ(best, expected);
  EXPECT_EQ(expected.size(), 3u) << "this job shows nothing";
}

}  // namespace
}  // namespace trireme::train::saving_test
