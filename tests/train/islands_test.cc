// Islands in whole jobs: layouts inside an island, checkpoints, evaluation and loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/harness/watched_runs.h"
#include "trireme/checkpoint/checkpoint.h"

namespace trireme::train::islands_test {
namespace {

using harness::JobTrace;
using harness::Sets;
using harness::Watch;
using harness::operator+;

const Sets kTwo = {"parallel.dp_replicate=2", "run.steps=5"};
const std::string kStreaming = "network.outer=islands:2,every:4,fragments:2,delay:1";

JobTrace trace(const Sets& sets, DType compute = DType::kF32) {
  return harness::run_job(harness::small_llama(compute, kTwo + sets), 5);
}

// What islands hold apart has names of its own, so `replicas_apart` compares what they have in common.
TEST(Islands, HaveTheirOwnStatesAndTheSameOuterWeights) {
  for (const std::string& outer : {std::string("network.outer=islands:2,every:4"), kStreaming}) {
    const JobTrace one = trace({outer});
    EXPECT_EQ(one.replicas_apart, 0);
    int own = 0;
    for (const auto& [name, state] : one.states) {
      if (!name.ends_with(" island0.exp_avg")) continue;
      const std::string other = name.substr(0, name.size() - 15) + "island1.exp_avg";
      own += state != one.states.at(other);
    }
    EXPECT_GT(own, 0);
    // The last step merges everything: weights become the outer weights.
    for (const auto& [name, state] : one.states)
      if (name.ends_with(" param")) {
        EXPECT_EQ(state, one.states.at(name.substr(0, name.size() - 5) + "island1.param")) << name;
      }
  }
}

TEST(Islands, ShardsInsideAnIslandChangeNoBit) {
  const JobTrace one = trace({kStreaming});
  for (const char* zero : {"0", "1", "2", "3"}) {
    SCOPED_TRACE(zero);
    harness::expect_same(
        one, trace({kStreaming, "parallel.dp_shard=2", std::string("parallel.zero=") + zero}));
  }
}

TEST(Islands, ReplicasInsideAnIslandChangeNoBit) {
  const JobTrace one = trace({kStreaming, "run.global_batch=8"});
  for (const char* zero : {"0", "1", "3"}) {
    SCOPED_TRACE(zero);
    harness::expect_same(one, trace({kStreaming, "run.global_batch=8", "parallel.dp_replicate=4",
                                     "parallel.dp_shard=2", std::string("parallel.zero=") + zero}));
  }
}

// Masters in two parts, which are put together for a merge.
TEST(Islands, ShardsOfMastersInTwoPartsChangeNoBit) {
  const JobTrace one = trace({kStreaming}, DType::kBF16);
  for (const char* zero : {"1", "3"})
    harness::expect_same(
        one, trace({kStreaming, "parallel.dp_shard=2", std::string("parallel.zero=") + zero},
                   DType::kBF16));
}

TEST(Islands, OtherLayoutsAgree) {
  const JobTrace one = trace({kStreaming}, DType::kF64);
  for (const Sets& layout : {Sets{"parallel.tp=2"}, Sets{"parallel.pp=2"}, Sets{"parallel.cp=2"}}) {
    SCOPED_TRACE(layout[0]);
    EXPECT_LT(harness::distance(one, trace(layout + Sets{kStreaming}, DType::kF64)), 1e-11);
  }
}

class IslandRuns : public harness::WatchedRuns {
 protected:
  void SetUp() override {
    std::string words;
    while (words.size() < 6000) words += "abcdefgh ijkl. " + std::to_string(words.size() * 7 % 91);
    prepare("data", words);
  }
  static Sets job(const std::string& outer, std::int64_t steps) {
    return {fmt::format("run.steps={}", steps),
            "network.outer=" + outer,
            "optim.schedule=constant",
            "model.dropout=0.1",
            "checkpoint.every=1",
            "checkpoint.async=false"};
  }
  Watch run_to_the_end(const harness::WatchedRun& run) {
    Watch watch;
    EXPECT_EQ(WatchedRuns::run(run, watch), Ending::kDone);
    return watch;
  }
};

// From every step, between merges and while a fragment is on its way. A checkpoint ends exchanges; without one, means return
// to all islands while they train.
TEST_F(IslandRuns, AResumedRunHasTheBitsOfOneThatWasNotStopped) {
  constexpr std::int64_t kSteps = 7;
  for (const std::string outer :
       {"islands:2,every:3", "islands:2,every:4,fragments:3,delay:2",
        "islands:2,every:4,fragments:2,delay:2,merge:direction,codec:q4:fp32,back:q8"}) {
    Sets sets = job(outer, kSteps);
    if (outer.find("codec") != outer.npos) sets.push_back("model.hidden=256");  // units to code
    const Watch whole = run_to_the_end({.out = "whole", .sets = sets});
    const auto shards = this->shards("whole", kSteps);
    const Watch alone = run_to_the_end({.out = "alone", .sets = sets + Sets{"checkpoint.every=7"}});
    EXPECT_EQ(alone.losses, whole.losses) << outer;
    EXPECT_TRUE(this->shards("alone", kSteps) == shards) << outer;
    std::filesystem::remove_all(scratch_ / "alone");
    for (std::int64_t step = 1; step < kSteps; ++step) {
      const Watch rest = run_to_the_end(
          {.out = fmt::format("from{}", step), .sets = sets, .resume = checkpoint("whole", step)});
      EXPECT_EQ(rest.losses.at(kSteps), whole.losses.at(kSteps)) << outer << " " << step;
      EXPECT_TRUE(this->shards(fmt::format("from{}", step), kSteps) == shards)
          << outer << " " << step;
    }
    for (std::int64_t step = 1; step < kSteps; ++step)
      std::filesystem::remove_all(scratch_ / fmt::format("from{}", step));
    std::filesystem::remove_all(scratch_ / "whole");
  }
}

// More steps after the last one, at which everything was merged at once.
TEST_F(IslandRuns, ALongerRunContinuesAfterTheLastMerge) {
  const std::string outer = "islands:2,every:4,fragments:2,delay:2";
  run_to_the_end({.out = "first", .sets = job(outer, 5)});
  const Watch more =
      run_to_the_end({.out = "first", .sets = job(outer, 9), .resume = checkpoint("first", 5)});
  EXPECT_LT(more.losses.at(9), 6);
}

// Evaluation sees what a checkpoint has as parameters, and training continues as if there were none.
TEST_F(IslandRuns, EvaluationIsOfTheOuterWeights) {
  const std::string outer = "islands:2,every:4,fragments:2,delay:1";
  for (const char* zero : {"0", "1"}) {
    const Sets sets = job(outer, 6) + Sets{std::string("parallel.zero=") + zero};
    const Watch plain = run_to_the_end({.out = "plain", .sets = sets, .ranks = 4});
    const Watch watched =
        run_to_the_end({.out = "watched", .sets = sets + Sets{"run.eval_every=1"}, .ranks = 4});
    EXPECT_EQ(plain.losses, watched.losses);
    // Outer weights have not changed before the first merge; weights have.
    EXPECT_EQ(watched.evals.at(1), watched.evals.at(3));
    EXPECT_NE(watched.evals.at(4), watched.evals.at(6));
    const Watch weights = run_to_the_end(
        {.out = "weights",
         .sets = job("none", 1) + Sets{"model.weights=" + checkpoint("watched", 5).string(),
                                       "optim.lr=1e-12", "run.eval_every=1"},
         .ranks = 1});
    EXPECT_NEAR(weights.evals.at(1), watched.evals.at(5), 1e-6);
    for (const char* out : {"plain", "watched", "weights"})
      std::filesystem::remove_all(scratch_ / out);
  }
}

}  // namespace
}  // namespace trireme::train::islands_test
