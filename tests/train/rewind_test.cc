// Spikes of the loss: training goes back and leaves their batches out, with the bits of a run that never had them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <sstream>
#include <thread>

#include "tests/harness/failing_files.h"
#include "tests/harness/watched_runs.h"
#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/data/loaders/sample_order.h"
#include "trireme/data/loaders/tokens/token_loader.h"
#include "trireme/formats/go_back.h"
#include "trireme/train/run/train_state.h"

namespace trireme::train::rewind_test {
namespace {

using harness::FailingFiles;
using harness::FileFault;
using harness::Sets;
using harness::Watch;
using loaders::BatchRange;
using harness::operator+;
using testing::ElementsAre;
using testing::HasSubstr;
using Ranges = std::vector<BatchRange>;

constexpr std::int64_t kSteps = 60, kTokens = 16, kBatch = 4, kSeed = 1;
constexpr std::int64_t kSpike = 50;  // the step, from 1, whose batch is noise
constexpr std::int64_t kWindow = 10, kSkipped = 2 * kWindow;
constexpr std::int64_t kBack = 40;  // the newest checkpoint that is a window older

// A text that is easy to learn, but for the samples of some batches.
std::string text_with_noise(std::int64_t first, std::int64_t last) {
  constexpr std::int64_t kLength = 12000;
  const char* words[] = {"abcdefgh", "ijklmnop", "qrstuvwx"};
  std::mt19937 random(11);
  std::string text;
  while (std::ssize(text) < kLength) text += words[random() % 3];
  const std::int64_t samples = (kLength * 4 / 5 - kTokens) / kTokens;  // of the training split
  const loaders::SampleOrder order(samples, kSeed);
  const std::uint64_t key = mix(mix(kSeed, 0x0FF5E7), 0);
  const auto offset = static_cast<std::int64_t>(key % kTokens);
  for (std::int64_t sample = first * kBatch; sample < (last + 1) * kBatch; ++sample)
    for (std::int64_t i = 0; i < kTokens; ++i)
      text[order.at(sample).sample * kTokens + offset + i] = static_cast<char>('0' + random() % 70);
  return text;
}

class Rewinding : public harness::WatchedRuns {
 protected:
  void SetUp() override {
    prepare("clean", text_with_noise(0, -1));
    prepare("data", text_with_noise(kSpike - 1, kSpike - 1));
  }

  static Sets plain() {
    return {"run.steps=60",    "checkpoint.every=4",      "checkpoint.async=false",
            "optim.lr=0.01",   "optim.schedule=constant", "run.eval_every=10",
            "model.tied=false"};
  }
  static Sets watching() { return plain() + Sets{fmt::format("run.spikes=[8, {}]", kWindow)}; }

  Watch run_to_the_end(const harness::WatchedRun& run) {
    Watch watch;
    EXPECT_EQ(WatchedRuns::run(run, watch), Ending::kDone);
    return watch;
  }
  Watch resume(harness::WatchedRun run) {
    run.resume = formats::newest_checkpoint(scratch_ / run.out / "checkpoints")->path;
    return run_to_the_end(run);
  }

  TrainState state(const std::string& out, std::int64_t step) {
    return parse_train_state(formats::read_manifest(checkpoint(out, step)).train_state, step, out);
  }

  // What a run without the policy makes of kBack when these batches are left out from there on.
  Watch reference(const std::string& from, const Ranges& left_out, const std::string& out,
                  std::int64_t back = kBack, const Sets& sets = {}) {
    std::filesystem::create_directories(checkpoint(out, back).parent_path());
    std::filesystem::copy(checkpoint(from, back), checkpoint(out, back));
    formats::Manifest manifest = formats::read_manifest(checkpoint(out, back));
    manifest.train_state = print(
        TrainState{.updates = state(from, back).updates, .left_out = loaders::LeftOut(left_out)});
    formats::go_back(os::real_file_system(), checkpoint(out, back).parent_path(), manifest);
    return resume({.out = out, .sets = plain() + sets, .ranks = 1});
  }

  std::vector<std::int64_t> steps_of_metrics(const std::string& out) {
    std::vector<std::int64_t> steps;
    for (const StepMetrics& step : read_history(scratch_ / out / kMetricsName, kSteps).steps)
      steps.push_back(step.step);
    return steps;
  }
};

std::map<std::int64_t, double> after(std::map<std::int64_t, double> losses, std::int64_t step) {
  losses.erase(losses.begin(), losses.upper_bound(step));
  return losses;
}

TEST_F(Rewinding, ASpikesBatchesAreAsIfTheyHadNotBeenThere) {
  const Watch base = run_to_the_end({.out = "base", .sets = plain(), .ranks = 1});
  const Watch watch = run_to_the_end({.out = "run", .sets = watching(), .ranks = 1});
  EXPECT_THAT(watch.rewinds, ElementsAre(kBack));
  EXPECT_EQ(state("run", kSteps).left_out.ranges(), (Ranges{{kBack, kBack + kSkipped - 1}}));
  EXPECT_EQ(state("run", kSteps).spikes.rewinds, 0) << "it got past the step";
  EXPECT_EQ(formats::read_manifest(checkpoint("run", kSteps)).consumed_samples,
            (kSteps + kSkipped) * kBatch);
  EXPECT_EQ(formats::read_manifest(checkpoint("run", kBack)).consumed_samples,
            (kBack + kSkipped) * kBatch);

  const Watch without = reference("base", {{kBack, kBack + kSkipped - 1}}, "reference");
  EXPECT_TRUE(without.rewinds.empty());
  EXPECT_EQ(after(watch.losses, kBack), without.losses);
  EXPECT_EQ(after(watch.evals, kBack), without.evals);
  EXPECT_TRUE(shards("run", kSteps) == shards("reference", kSteps));
  // Negative controls: the spike did harm, and one batch more or less is seen.
  EXPECT_GT(base.losses.at(kSpike), watch.losses.at(kSpike) + 1);
  EXPECT_FALSE(shards("run", kSteps) == shards("base", kSteps));
  reference("base", {{kBack, kBack + kSkipped - 2}}, "fewer");
  EXPECT_FALSE(shards("run", kSteps) == shards("fewer", kSteps));

  // What is told of it.
  ASSERT_EQ(watch.faults.size(), 1u);
  EXPECT_EQ(watch.faults[0].kind, "loss spike");
  EXPECT_EQ(watch.faults[0].step, kSpike);
  EXPECT_EQ(watch.faults[0].action, "rewind");
  EXPECT_THAT(watch.faults[0].cause, HasSubstr("; rewind to step 40, batches 40 to 59 left out"));
  EXPECT_GT(watch.faults[0].lost_s, 0);
  std::istringstream events(read_file(scratch_ / "run/events.jsonl"));
  int lines = 0;
  for (std::string line; std::getline(events, line); ++lines)
    EXPECT_THAT(line, HasSubstr("\"class\":\"loss spike\""));
  EXPECT_EQ(lines, 1);
  std::vector<std::int64_t> once;
  for (std::int64_t step = 1; step <= kSteps; ++step) once.push_back(step);
  EXPECT_EQ(steps_of_metrics("run"), once);
}

TEST_F(Rewinding, WithoutASpikeNothingHappens) {
  const Watch base = run_to_the_end({.out = "base", .sets = plain(), .ranks = 1, .data = "clean"});
  const Watch watch =
      run_to_the_end({.out = "run", .sets = watching(), .ranks = 1, .data = "clean"});
  EXPECT_TRUE(watch.faults.empty());
  EXPECT_EQ(watch.losses, base.losses);
  EXPECT_TRUE(shards("run", kSteps) == shards("base", kSteps));
}

// Whatever a rank holds, and wherever.
TEST_F(Rewinding, EveryLayoutHasTheSameBits) {
  const Watch one = run_to_the_end({.out = "one", .sets = watching(), .ranks = 1});
  int layout = 0;
  for (const Sets& sets :
       std::vector<Sets>{{"parallel.zero=0"},
                         {"parallel.zero=1"},
                         {"parallel.zero=2"},
                         {"parallel.zero=3"},
                         {"parallel.pp=2"},
                         {"parallel.zero=3", "offload.optimizer=nvme", "offload.params=nvme"}}) {
    SCOPED_TRACE(harness::print(sets));
    const std::string out = fmt::format("layout{}", layout++);
    const Watch two = run_to_the_end({.out = out, .sets = watching() + sets});
    EXPECT_THAT(two.rewinds, ElementsAre(kBack));
    EXPECT_EQ(two.losses, one.losses);
    EXPECT_EQ(two.evals, one.evals);
    EXPECT_EQ(state(out, kSteps), state("one", kSteps));
  }
}

// It goes back with the rest: the scale is that of a run without spikes.
TEST_F(Rewinding, TheLossScaleGoesBackToo) {
  const Sets dynamic = {"precision.loss_scale=dynamic"};
  const Watch one = run_to_the_end({.out = "one", .sets = watching(), .ranks = 1});
  const Watch scaled = run_to_the_end({.out = "scaled", .sets = watching() + dynamic, .ranks = 1});
  run_to_the_end({.out = "base", .sets = plain() + dynamic, .ranks = 1});
  EXPECT_THAT(scaled.rewinds, ElementsAre(kBack));
  EXPECT_EQ(scaled.losses, one.losses);
  EXPECT_EQ(state("scaled", kSteps).updates, kSteps);
  ASSERT_TRUE(state("scaled", kSteps).loss_scale.has_value());
  EXPECT_EQ(state("scaled", kSteps).loss_scale, state("base", kSteps).loss_scale);
}

TEST_F(Rewinding, AKillAfterItCostsNoBitNorDoesAnotherLayout) {
  const Watch whole = run_to_the_end({.out = "whole", .sets = watching(), .ranks = 1});
  for (const int ranks : {1, 2}) {
    const std::string out = fmt::format("killed{}", ranks);
    Watch killed;
    killed.at_step = [&](std::int64_t step) {
      if (!killed.rewinds.empty() && step == kBack + 1) throw std::runtime_error("killed");
    };
    EXPECT_ANY_THROW(run({.out = out, .sets = watching(), .ranks = 1}, killed));
    EXPECT_EQ(*saved(out).rbegin(), kBack);
    const Watch again = resume({.out = out, .sets = watching(), .ranks = ranks});
    EXPECT_TRUE(again.rewinds.empty()) << "it goes on where it had gone back to";
    EXPECT_EQ(again.losses, after(whole.losses, kBack));
    EXPECT_EQ(again.evals, after(whole.evals, kBack));
    EXPECT_EQ(state(out, kSteps), state("whole", kSteps));
    EXPECT_EQ(shards(out, kSteps) == shards("whole", kSteps), ranks == 1);
  }
}

// What is in memory is newer than where it went back to, and of what did not happen.
TEST_F(Rewinding, SnapshotsInMemoryGoWithWhatIsTakenBack) {
  const Watch whole = run_to_the_end({.out = "whole", .sets = watching(), .ranks = 1});
  const auto memory = [&](int) { return scratch_ / "memory"; };
  const auto in_memory = [&] {
    return formats::list_checkpoints(scratch_ / "memory", formats::CheckpointCheck::kManifest);
  };
  std::filesystem::create_directories(scratch_ / "memory");
  const Sets sets = watching() + Sets{"checkpoint.memory_every=1"};
  bool was_there = false;
  Watch killed;
  killed.at_step = [&](std::int64_t step) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // time for snapshots
    if (killed.rewinds.empty()) {
      was_there = step == kSpike && !in_memory().empty() && in_memory()[0].step > kBack;
      return;
    }
    EXPECT_TRUE(in_memory().empty());
    throw std::runtime_error("killed");
  };
  EXPECT_ANY_THROW(run({.out = "run", .sets = sets, .ranks = 1, .memory = memory}, killed));
  EXPECT_TRUE(was_there);
  const Watch again = run_to_the_end({.out = "run",
                                      .sets = sets,
                                      .ranks = 1,
                                      .resume = checkpoint("run", kBack),
                                      .memory = memory});
  EXPECT_TRUE(again.rewinds.empty());
  EXPECT_EQ(again.losses, after(whole.losses, kBack));
  EXPECT_TRUE(shards("run", kSteps) == shards("whole", kSteps));
}

// Between any two calls that change the disk; before the decision lasts, it is taken again.
TEST_F(Rewinding, AKillInTheMiddleOfItCostsNoBit) {
  run_to_the_end({.out = "whole", .sets = watching(), .ranks = 1});
  Watch stopped;
  std::atomic<int> stop = 0;
  stopped.at_step = [&](std::int64_t step) { stop = step == kSpike - 4 ? 15 : 0; };
  run({.out = "start", .sets = watching(), .ranks = 1, .stop = &stop}, stopped);
  EXPECT_EQ(*saved("start").rbegin(), kSpike - 3);
  int nth = 0, again = 0;
  for (bool fired = true; fired; ++nth) {
    SCOPED_TRACE(nth);
    std::filesystem::remove_all(scratch_ / "run");
    std::filesystem::copy(scratch_ / "start", scratch_ / "run",
                          std::filesystem::copy_options::recursive);
    FailingFiles files(os::real_file_system());
    Watch killed;
    killed.at_step = [&](std::int64_t step) {
      if (step == kSpike && killed.rewinds.empty()) files.fail(nth, FileFault::kKill);
      if (!killed.rewinds.empty()) throw std::runtime_error("killed");
    };
    EXPECT_ANY_THROW(run({.out = "run",
                          .sets = watching(),
                          .ranks = 1,
                          .resume = checkpoint("run", kSpike - 3),
                          .files = &files},
                         killed));
    fired = killed.rewinds.empty();
    again += resume({.out = "run", .sets = watching(), .ranks = 1}).rewinds.size();
    EXPECT_TRUE(shards("run", kSteps) == shards("whole", kSteps));
    EXPECT_EQ(state("run", kSteps), state("whole", kSteps));
  }
  EXPECT_GE(nth, 5);
  EXPECT_GT(again, 1);
}

// Behind training it is the same, whichever checkpoints there were.
TEST_F(Rewinding, WhatIsBeingWrittenIsFinishedFirst) {
  const Sets async = {"checkpoint.async=true", "checkpoint.every=1", "checkpoint.keep_last=12"};
  const Watch watch = run_to_the_end({.out = "run", .sets = watching() + async, .ranks = 1});
  ASSERT_EQ(watch.rewinds.size(), 1u);
  const std::int64_t back = watch.rewinds[0];
  EXPECT_LE(back, kSpike - kWindow);
  const Ranges left_out = {{back, std::max(back + kSkipped - 1, kSpike - 1)}};
  EXPECT_EQ(state("run", kSteps).left_out.ranges(), left_out);
  run_to_the_end({.out = "base", .sets = plain() + Sets{"checkpoint.every=1"}, .ranks = 1});
  reference("base", left_out, "reference", back);
  EXPECT_TRUE(shards("run", kSteps) == shards("reference", kSteps));
}

TEST_F(Rewinding, AStopInTheSpikesStepLeavesWhereItWentBackTo) {
  std::atomic<int> stop = 0;
  Watch watch;
  watch.at_step = [&](std::int64_t step) {
    if (step == kSpike - 1) stop = 15;
  };
  EXPECT_EQ(run({.out = "run", .sets = watching(), .ranks = 1, .stop = &stop}, watch),
            Ending::kInterrupted);
  EXPECT_THAT(watch.rewinds, ElementsAre(kBack));
  EXPECT_EQ(watch.end.step, kBack);
  EXPECT_EQ(watch.end.checkpoint, checkpoint("run", kBack));
  run_to_the_end({.out = "whole", .sets = watching(), .ranks = 1});
  resume({.out = "run", .sets = watching(), .ranks = 1});
  EXPECT_TRUE(shards("run", kSteps) == shards("whole", kSteps));
}

TEST_F(Rewinding, SpikesThatDoNotEndEndTheRun) {
  prepare("noise", text_with_noise(kSpike - 1, kSpike + 60));
  const Sets sets =
      watching() +
      Sets{"run.spikes=[8, 8]"};  // goes back less each time, past losses that still fall
  Watch watch;
  const Stopwatch clock;
  try {
    run({.out = "run", .sets = sets, .data = "noise"}, watch);
    ADD_FAILURE() << "ended well";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
    EXPECT_THAT(error.what(), HasSubstr("3 rewinds have not passed it"));
  }
  EXPECT_EQ(watch.rewinds.size(), 3u);
  ASSERT_EQ(watch.faults.size(), 4u);
  EXPECT_EQ(watch.faults[3].action, "stop");
  double lost_s = 0;
  for (const formats::Event& fault : watch.faults) lost_s += fault.lost_s;
  EXPECT_LT(lost_s, clock.seconds()) << "nothing is lost twice";
  // The limit is the run's: a restart does not begin to count anew.
  Watch again;
  const Path newest = formats::newest_checkpoint(scratch_ / "run/checkpoints")->path;
  EXPECT_THROW(run({.out = "run", .sets = sets, .data = "noise", .resume = newest}, again), Error);
  EXPECT_TRUE(again.rewinds.empty());
}

TEST_F(Rewinding, WithoutACheckpointToGoBackToTheRunGoesOn) {
  const Watch base = run_to_the_end({.out = "base", .sets = plain()});
  const Watch watch =
      run_to_the_end({.out = "run", .sets = watching() + Sets{"run.spikes=[3, 48]"}});
  EXPECT_TRUE(watch.rewinds.empty());
  ASSERT_FALSE(watch.faults.empty());
  EXPECT_EQ(watch.faults[0].step, kSpike);
  EXPECT_EQ(watch.faults[0].action, "continue");
  EXPECT_THAT(watch.faults[0].cause, HasSubstr("no usable checkpoint of step 2 or before"));
  EXPECT_EQ(watch.losses, base.losses);
  EXPECT_TRUE(shards("run", kSteps) == shards("base", kSteps));
}

// An older one is taken where the one that was due cannot be used.
TEST_F(Rewinding, ADamagedCheckpointIsPassedOver) {
  Watch watch;
  watch.at_step = [&](std::int64_t step) {
    if (step != kSpike || !watch.rewinds.empty()) return;
    const Path file = checkpoint("run", kBack) / "rank-00000.safetensors";
    std::string bytes = read_file(file);
    bytes[bytes.size() / 2] ^= 1;
    std::ofstream(file, std::ios::binary) << bytes;
  };
  EXPECT_EQ(run({.out = "run", .sets = watching(), .ranks = 1}, watch), Ending::kDone);
  EXPECT_THAT(watch.rewinds, ElementsAre(kBack - 4));
  EXPECT_EQ(state("run", kSteps).left_out.ranges(),
            (Ranges{{kBack - 4, kBack - 4 + kSkipped - 1}}));
}

}  // namespace
}  // namespace trireme::train::rewind_test
