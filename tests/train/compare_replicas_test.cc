// Replicas are compared bit for bit, and the one that is alone is named.
#include "trireme/train/recording/compare_replicas.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "tests/harness/small_jobs.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/loaders/tokens/random_tokens.h"
#include "trireme/train/job_session.h"

namespace trireme::train::compare_replicas_test {
namespace {

constexpr double kTimeoutS = 120;

TEST(JudgeDigests, NamesTheFewest) {
  const Digests sound = {{"a param\t0", "1"}, {"a exp_avg\t0", "2"}};
  Digests bad = sound;
  bad[1].second = "3";
  EXPECT_TRUE(judge_digests({sound, sound, sound}).ranks.empty());
  const Apart one = judge_digests({sound, bad, sound});
  EXPECT_EQ(one.ranks, std::vector<int>{1});
  EXPECT_EQ(describe(one),
            "rank 1 holds another a exp_avg than the 2 ranks that should hold the same");
  const Apart tie = judge_digests({sound, bad});
  EXPECT_FALSE(tie.outvoted);
  EXPECT_EQ(describe(tie),
            "ranks 0, 1 should hold the same a exp_avg and do not; no value has a majority");
  const Apart two = judge_digests({sound, bad, sound, bad, sound});
  EXPECT_EQ(two.ranks, (std::vector<int>{1, 3}));
  // Who holds something else has no part in it.
  EXPECT_TRUE(judge_digests({sound, {{"b param\t0", "9"}}}).ranks.empty());
}

config::Job job_of(const std::vector<std::string>& sets) {
  config::Job job = harness::six_nodes("gpt_tiny.yaml", sets);
  job.model.vocab = 256;
  return job;
}

// Trains a step on every rank, flips bit `bit` of an element of `kind` on rank `victim`, and compares.
Apart after_flip(const std::vector<std::string>& sets, int ranks, int victim,
                 const std::string& kind, int bit) {
  const config::Job job = config::resolve(job_of(sets), ranks, {});
  Apart found;
  comm::run_local_ranks(ranks, kTimeoutS, [&](comm::World& world) {
    JobSession session(job, world);
    session.train(0, false, [&](std::int64_t first) {
      return loaders::random_tokens(first, job.run.micro_batch, job.model.seq_len, job.model.vocab,
                                    false);
    });
    exec::Units& units = session.session().units();
    const auto& specs = session.session().model().spec.units;
    EXPECT_TRUE(has_replicas(units, specs, world));
    EXPECT_TRUE(compare_replicas(units, specs, world).ranks.empty());
    if (world.rank() == victim)
      for (const exec::StateSlice& slice : units.local_slices()) {
        if (slice.kind != kind) continue;
        exec::StateSlice one = slice;
        one.count = 1;
        const at::Tensor value = units.read(one).clone();
        static_cast<std::uint8_t*>(value.data_ptr())[bit / 8] ^=
            static_cast<std::uint8_t>(1U << (bit % 8));
        units.write(one, value);
        break;
      }
    const Apart apart = compare_replicas(units, specs, world);
    if (world.rank() == 0) found = apart;
  });
  return found;
}

TEST(CompareReplicas, EveryBitOfParametersAndStatesCounts) {
  for (const char* kind : {"param", "exp_avg", "exp_avg_sq"})
    for (const int bit : {0, 7, 15, 23, 31}) {
      const Apart apart = after_flip({"parallel.dp_replicate=4"}, 4, 1, kind, bit);
      EXPECT_EQ(apart.ranks, std::vector<int>{1}) << kind << " bit " << bit;
      EXPECT_NE(apart.what.find(kind), std::string::npos) << apart.what;
    }
}

TEST(CompareReplicas, AlsoOfShardsAndOfTensorRanks) {
  EXPECT_EQ(after_flip({"parallel.dp_replicate=4", "parallel.dp_shard=2", "parallel.zero=3"}, 8, 4,
                       "param", 3)
                .ranks,
            std::vector<int>{4});
  EXPECT_EQ(after_flip({"parallel.dp_replicate=4", "parallel.tp=2"}, 8, 5, "exp_avg", 3).ranks,
            std::vector<int>{5});
}

TEST(CompareReplicas, ShardsAloneHaveNone) {
  const config::Job job =
      config::resolve(job_of({"parallel.zero=3", "parallel.dp_shard=2"}), 2, {});
  comm::run_local_ranks(2, kTimeoutS, [&](comm::World& world) {
    JobSession session(job, world);
    EXPECT_FALSE(
        has_replicas(session.session().units(), session.session().model().spec.units, world));
  });
}

}  // namespace
}  // namespace trireme::train::compare_replicas_test
