// Checkpoints while a run goes on: what is written behind it, what a bad or slow disk does to it, what stays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "tests/formats/scratch.h"
#include "tests/harness/faulty_files.h"
#include "tests/harness/small_jobs.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/formats/checkpoint_files.h"
#include "trireme/formats/dataset.h"
#include "trireme/formats/sources.h"
#include "trireme/train/trainer.h"

namespace trireme::train {
namespace {

using formats::Scratch;
using harness::FaultyFiles;
using harness::FileFault;
using harness::Sets;
using harness::operator+;
using testing::ElementsAre;
using testing::HasSubstr;
using Steps = std::set<std::int64_t>;

// A disk that syncs no file before open().
class SlowDisk : public FaultyFiles {
 public:
  using FaultyFiles::FaultyFiles;
  int fsync(int file) override {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return open_; });
    return FaultyFiles::fsync(file);
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

class Watch : public Callback {
 public:
  std::function<void(std::int64_t)> at_step = [](std::int64_t) {};
  std::map<std::int64_t, double> losses, evals;
  std::vector<CheckpointMetrics> checkpoints;
  RunEnd end;

  void on_step(const StepMetrics& m) override {
    losses[m.step] = m.loss;
    at_step(m.step);
  }
  void on_eval(const EvalMetrics& m) override { evals[m.step] = m.loss; }
  void on_checkpoint(const CheckpointMetrics& m) override { checkpoints.push_back(m); }
  void on_end(const RunEnd& e) override { end = e; }
};

// What a run's callbacks see is its watch's; the watch outlives it.
class Through : public Callback {
 public:
  explicit Through(Watch& watch) : watch_(watch) {}
  void on_step(const StepMetrics& m) override { watch_.on_step(m); }
  void on_eval(const EvalMetrics& m) override { watch_.on_eval(m); }
  void on_checkpoint(const CheckpointMetrics& m) override { watch_.on_checkpoint(m); }
  void on_end(const RunEnd& e) override { watch_.on_end(e); }

 private:
  Watch& watch_;
};

class Saving : public testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "line " + std::to_string(i * i) + " of a text\n";
    scratch_.write("text.txt", text);
    formats::prepare_dataset(
        {.sources = formats::collect_sources({scratch_ / "text.txt"}),
         .out = scratch_ / "data",
         .validation = {.by = formats::ValidationRule::By::kTail, .fraction = 0.2}});
  }

  // Two ranks, five steps, unless `sets` say otherwise.
  Ending run(const std::string& out, const Sets& sets, Watch& watch,
             env::FileSystem& files = env::real_file_system(),
             const std::atomic<int>* stop = nullptr) {
    const Sets small = {"model.layers=2",   "model.hidden=32",      "model.heads=4",
                        "model.seq_len=16", "run.global_batch=4",   "run.micro_batch=1",
                        "run.eval_every=0", "optim.warmup_steps=0", "parallel.dp_shard=2",
                        "run.steps=5",      "checkpoint.every=2"};
    TrainSetup setup;
    setup.job = config::resolve(harness::job_of("gpt_tiny.yaml", small, sets), 2, {.vocab = 256});
    setup.dataset = scratch_ / "data";
    setup.out = scratch_ / out;
    setup.build_id = "test";
    setup.files = &files;
    setup.stop = stop;
    std::filesystem::create_directories(setup.out);
    Ending ending{};
    comm::run_local_ranks(2, 600, [&](comm::World& world) {
      Callbacks callbacks;
      if (world.rank() == 0) callbacks.push_back(std::make_unique<Through>(watch));
      const Ending mine = train(setup, world, callbacks);
      if (world.rank() == 0) ending = mine;
    });
    return ending;
  }

  // Steps of which every byte is as it was written; nothing else lies beside them.
  Steps saved(const std::string& out) {
    const Path root = scratch_ / out / "checkpoints";
    Steps steps;
    for (const auto& entry :
         formats::list_checkpoints(root, formats::CheckpointCheck::kEveryByte)) {
      EXPECT_EQ(entry.problem, "");
      steps.insert(entry.step);
    }
    for (const auto& entry : std::filesystem::directory_iterator(root))
      EXPECT_TRUE(formats::step_of(entry.path().filename())) << entry.path();
    return steps;
  }

  // All files but the manifest, by name.
  std::map<std::string, std::string> shards(const std::string& out, std::int64_t step) {
    const Path directory = scratch_ / out / "checkpoints" / fmt::format("step-{}", step);
    std::map<std::string, std::string> shards;
    for (const auto& file : formats::verify_checkpoint(directory).files)
      shards[file.name] = read_file(directory / file.name);
    return shards;
  }

  Scratch scratch_;
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
  SlowDisk disk(env::real_file_system());
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
  EXPECT_THAT(watch.checkpoints[0].problem, HasSubstr("the one before is still being written"));
  EXPECT_EQ(watch.checkpoints[1].step, 2);
  EXPECT_EQ(watch.checkpoints[1].problem, "");
  EXPECT_EQ(watch.checkpoints[2].step, 5);
}

TEST_F(Saving, AnInterruptWaitsForWhatIsUnderWay) {
  Watch watch;
  SlowDisk disk(env::real_file_system());
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
  class Sluggish : public FaultyFiles {
   public:
    using FaultyFiles::FaultyFiles;
    int fsync(int file) override {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // many steps
      return FaultyFiles::fsync(file);
    }
  };
  Watch watch;
  Sluggish disk(env::real_file_system());
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
      FaultyFiles files(env::real_file_system());
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
  FaultyFiles files(env::real_file_system());
  watch.at_step = [&](std::int64_t step) {
    if (step == 5) files.fail(2, FileFault::kKill);
  };
  try {
    run("run", {"checkpoint.async=false"}, watch, files);
    ADD_FAILURE() << "ended well";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_THAT(error.what(), HasSubstr("checkpoint of step 5 not written"));
    EXPECT_THAT(error.what(), HasSubstr("mend that and resume"));
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
  EXPECT_EQ(kept("every", {"checkpoint.keep_last=2", "checkpoint.keep_every=4"}, watch),
            (Steps{4, 8, 9}));
  // Losses that rise in the end: the best is an early one.
  Watch rising;
  const Steps best =
      kept("best",
           {"checkpoint.keep_last=2", "checkpoint.keep_best=1", "optim.lr=0.5", "optim.min_lr=0.5"},
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
}  // namespace trireme::train
