// Keys of coded sums: what a layout needs for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/error_of.h"
#include "trireme/config/resolve/coded_sums.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::config::network_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Job job_of(const std::vector<std::string>& sets) {
  Job job;
  apply_set(job, "run.micro_batch=1");
  apply_set(job, "run.global_batch=8");
  for (const std::string& set : sets) apply_set(job, set);
  return job;
}

std::string refusal(const std::vector<std::string>& sets, int world = 1) {
  return usage_error_of([&] { resolve(job_of(sets), world, {.vocab = 256}); });
}

int senders_of(const std::vector<std::string>& sets, int world) {
  return senders(resolve(job_of(sets), world, {.vocab = 256}));
}

TEST(Network, SendersAreRanksOrReplicasUnlessTheyAreGiven) {
  EXPECT_EQ(senders_of({"network.codec=q8"}, 1), 1);
  EXPECT_EQ(senders_of({"network.codec=q8"}, 4), 4);
  EXPECT_EQ(senders_of({"network.codec=q4/q8", "network.senders=8"}, 2), 8);
  EXPECT_EQ(senders_of({"network.codec=q8", "parallel.zero=3", "parallel.dp_replicate=2"}, 4), 2);
}

TEST(Network, CodecsThatNeedResidualsAreRefused) {
  EXPECT_THAT(refusal({"network.codec=q5"}),
              HasSubstr("network.codec=q5: no such codec; choose bf16, q8, q4 or f4"));
  EXPECT_THAT(refusal({"network.codec=q8/int8"}),
              HasSubstr("network.codec=q8/int8: no such codec; choose bf16, q8, q4 or f4"));
  EXPECT_THAT(refusal({"network.codec=q8/"}), HasSubstr("needs the codec of the way back"));
  EXPECT_THAT(usage_error_of([] { job_of({"network.back=q8"}); }),
              HasSubstr("it is the last part of network.codec, such as q4/q8"));
  for (const char* codec : {"sign", "topk:0.01:16"}) {
    const std::string set = std::string("network.codec=") + codec;
    EXPECT_THAT(refusal({set}), HasSubstr("set network.codec=" + std::string(codec) + ":fp32"));
    EXPECT_EQ(senders_of({set + ":bf16"}, 2), 2);
    EXPECT_THAT(refusal({set + ":fp16"}), HasSubstr(set + ":fp16: no such codec"));
    EXPECT_THAT(refusal({set + ":fp32", "offload.optimizer=host"}),
                HasSubstr("residuals stay in memory"));
    EXPECT_THAT(refusal({std::string("network.codec=q8:fp32/") + codec}),
                HasSubstr("needs residuals, which only gradients of senders have"));
  }
  EXPECT_EQ(senders_of({"network.codec=q4:fp32"}, 2), 2);
  EXPECT_THAT(refusal({"network.codec=topk:fp32"}),
              AllOf(HasSubstr("network.codec=topk:fp32: no such codec"),
                    HasSubstr("topk:SHARE:BITS:fp32")));
  EXPECT_THAT(refusal({"network.codec=none:fp32"}), HasSubstr("no such codec"));
  EXPECT_THAT(refusal({"network.codec=lowrank:1025"}), HasSubstr("RANK 1 to 1024"));
  EXPECT_EQ(senders_of({"network.codec=randk:0.1:32"}, 2), 2);
}

// Senders of integers share exponents: all of a step code at the same time.
TEST(Network, CodecsOfIntegersAreForSumsOfAllSenders) {
  EXPECT_EQ(senders_of({"network.codec=i8x"}, 4), 4);
  EXPECT_EQ(senders_of({"network.codec=i4x:bf16/q8", "network.algorithm=ring"}, 4), 4);
  EXPECT_EQ(senders_of({"network.codec=i8x:fp32:4"}, 4), 4);
  EXPECT_THAT(refusal({"network.codec=q8/i8x"}),
              HasSubstr("codec i8x adds codes of several senders, and here is one"));
  EXPECT_THAT(refusal({"network.gather=i4x"}), HasSubstr("choose bf16, q8, q4 or f4"));
  EXPECT_THAT(refusal({"network.codec=i8x:stochastic"}), HasSubstr("no such codec"));
  EXPECT_THAT(
      refusal({"network.codec=i8x", "parallel.zero=3"}, 2),
      AllOf(HasSubstr("ZeRO-2 and 3 reduce every micro-batch"), HasSubstr("parallel.zero=1")));
  EXPECT_THAT(refusal({"network.codec=i8x:fp32:2", "network.senders=8"}),
              HasSubstr("set 8, because senders share exponents"));
  EXPECT_THAT(refusal({"network.codec=i8x", "network.senders=16909321"}),
              HasSubstr("needs more than 32 bits; set at most 16909320"));
  for (const char* layout : {"parallel.tp=2", "parallel.cp=2", "parallel.pp=2"})
    EXPECT_THAT(refusal({"network.codec=i8x", layout}, 2),
                HasSubstr("needs " + std::string(layout, 11) + "=1"));
  EXPECT_THAT(refusal({"network.codec=i4x", "precision.compute=fp64"}),
              HasSubstr("precision.grads=fp32"));
}

TEST(Network, SumsAtLowRankHaveResidualsAndBeginLater) {
  const auto parts = [](const char* codec) { return sum_codecs({.codec = codec}); };
  EXPECT_EQ(parts("lowrank:4").residual, DType::kF32);
  EXPECT_EQ(parts("lowrank:4:bf16").residual, DType::kBF16);
  EXPECT_EQ(parts("lowrank:4:0:bf16").codec, "lowrank:4");
  const auto uncoded = [](const char* codec) {
    return uncoded_steps(resolve(job_of({"run.steps=250", std::string("network.codec=") + codec}),
                                 2, {.vocab = 256}));
  };
  EXPECT_EQ(uncoded("lowrank:4"), 25);
  EXPECT_EQ(uncoded("lowrank:4:7:bf16"), 7);
  EXPECT_EQ(uncoded("lowrank:4:0"), 0);
  EXPECT_EQ(uncoded("q4"), 0);
  const auto refused = [](const char* codec, const std::vector<std::string>& more, int world) {
    std::vector<std::string> sets = more;
    sets.push_back(std::string("network.codec=") + codec);
    return refusal(sets, world);
  };
  for (const char* codec : {"lowrank", "lowrank:0", "lowrank:4:x", "lowrank:4:-1"})
    EXPECT_THAT(refused(codec, {}, 2), HasSubstr("lowrank:RANK")) << codec;
  EXPECT_THAT(refused("lowrank:4/q8", {}, 2), HasSubstr("there and back; leave out /q8"));
  EXPECT_THAT(refused("lowrank:4:fp32:2", {}, 2), HasSubstr("leave out the number 2"));
  EXPECT_THAT(
      refused("lowrank:4", {"parallel.zero=3"}, 2),
      HasSubstr("ZeRO-2 and 3 reduce every micro-batch; set parallel.zero=1, or parallel."));
  EXPECT_THAT(refused("lowrank:4", {"network.senders=6", "run.global_batch=12"}, 2),
              HasSubstr("factors of 3 senders on each of 2 ranks"));
  EXPECT_THAT(refused("q8", {"network.gather=lowrank:4"}, 2), HasSubstr("no such codec"));
  EXPECT_THAT(refused("none", {"network.outer=islands:2,codec:lowrank:4"}, 2),
              HasSubstr("codec:lowrank:4 takes sums of gradients"));
}

TEST(Network, ARunKeepsItsResiduals) {
  const auto refusal_of = [](const std::string& saved, const std::string& now) -> std::string {
    Job before, after;
    before.network.codec = saved;
    after.network.codec = now;
    try {
      check_resumable(before, after);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal_of("q4:bf16", "q4"), HasSubstr("network.codec was q4:bf16, is q4"));
  EXPECT_THAT(refusal_of("q4:bf16", "none"), HasSubstr("drops the residuals"));
  for (const char* now : {"q4:bf16", "q8:fp32", "topk:0.01:16:fp32"})
    EXPECT_EQ(refusal_of("q4:bf16", now), "") << now;
  EXPECT_EQ(refusal_of("q4", "q4:bf16"), "");
}

TEST(Network, LayoutsWithoutCodedSumsAreRefused) {
  const auto with = [](std::vector<std::string> sets, int world) {
    sets.emplace_back("network.codec=q8");
    return refusal(sets, world);
  };
  EXPECT_THAT(with({"parallel.tp=2"}, 2), HasSubstr("parallel.tp=2: needs parallel.tp=1"));
  EXPECT_THAT(with({"parallel.cp=2"}, 2), HasSubstr("needs parallel.cp=1"));
  EXPECT_THAT(with({"parallel.pp=2"}, 2), HasSubstr("needs parallel.pp=1"));
  EXPECT_THAT(with({"precision.compute=fp64"}, 1), HasSubstr("needs precision.grads=fp32"));
  EXPECT_THAT(with({"precision.numerics=fast"}, 1), HasSubstr("precision.numerics=canonical"));
  EXPECT_THAT(with({"offload.grads=host"}, 1), HasSubstr("offload.grads=none"));
}

// Shards that are exchanged at every micro-batch have senders in each.
TEST(Network, ShardsWithoutReplicasHaveSendersInEveryMicroBatch) {
  EXPECT_EQ(senders_of({"network.codec=q4", "parallel.zero=3"}, 4), 8);
  EXPECT_EQ(senders_of({"network.codec=q4", "parallel.zero=2", "network.senders=4"}, 4), 4);
  EXPECT_EQ(senders_of({"network.codec=q4", "parallel.zero=3", "network.gather=q8:2"}, 4), 4);
  const auto with = [](const std::vector<std::string>& more, int world) {
    std::vector<std::string> sets = {"parallel.zero=3"};
    sets.insert(sets.end(), more.begin(), more.end());
    return refusal(sets, world);
  };
  EXPECT_THAT(with({"network.codec=q4:bf16/q8"}, 2),
              HasSubstr("ZeRO-2 and 3 reduce every micro-batch and send no sum back; leave out the "
                        "codec after /, or set parallel.zero=1"));
  EXPECT_THAT(with({"network.codec=q4", "precision.group=2"}, 2), HasSubstr("precision.group=1"));
  EXPECT_THAT(with({"network.codec=q4", "run.global_batch=12"}, 3),
              HasSubstr("parallel.dp_shard=3 is no power of two"));
  for (const char* senders : {"network.senders=3", "network.senders=16", "network.senders=6"})
    EXPECT_THAT(with({"network.codec=q4", senders}, 4),
                HasSubstr("set 2 times a power of two up to 4"));
}

TEST(Network, ResidualsAreOneForEverySenderThatCodesAtATime) {
  const auto residuals_of = [](const std::vector<std::string>& sets, int world) {
    return residuals(resolve(job_of(sets), world, {.vocab = 256}));
  };
  EXPECT_EQ(residuals_of({"network.codec=q4"}, 4), 0);
  EXPECT_EQ(residuals_of({"network.codec=q4:bf16"}, 4), 4);
  EXPECT_EQ(residuals_of({"network.codec=q4:bf16", "parallel.zero=3"}, 4), 4);
  EXPECT_EQ(residuals_of({"network.codec=q4:bf16", "parallel.zero=3", "network.gather=q8:2"}, 4),
            2);
  EXPECT_EQ(residuals_of({"network.codec=topk:0.1:8:fp32:2", "network.senders=8"}, 1), 2);
  EXPECT_EQ(residuals_of({"network.codec=q4:bf16:8", "parallel.zero=3"}, 4), 8);
  EXPECT_THAT(refusal({"network.codec=q4:bf16:3", "parallel.zero=3"}, 4),
              HasSubstr("3 residuals of network.senders=8; set a multiple of the 4 senders of each "
                        "micro-batch that divides 8"));
  EXPECT_THAT(refusal({"network.codec=q4:bf16:3", "network.senders=8"}),
              HasSubstr("3 residuals of network.senders=8; set a divisor of 8"));
  EXPECT_THAT(refusal({"network.codec=q4:bf16:2", "network.senders=8"}, 4),
              HasSubstr("set 8 on 4 ranks, whose senders code at the same time"));
  EXPECT_THAT(refusal({"network.codec=q4:bf16:0"}), HasSubstr("no such codec"));
}

TEST(Network, CodesOfParametersAreRefusedWhereTheyCannotBe) {
  const auto with = [](std::vector<std::string> sets, int world, const char* gather = "q8") {
    sets.push_back(std::string("network.gather=") + gather);
    return refusal(sets, world);
  };
  EXPECT_NO_THROW(resolve(job_of({"network.gather=bf16"}), 1, {.vocab = 256}));
  EXPECT_NO_THROW(resolve(job_of({"network.gather=q8", "parallel.pp=2"}), 2, {.vocab = 256}));
  EXPECT_NO_THROW(resolve(job_of({"network.gather=q8:2", "parallel.zero=3"}), 4, {.vocab = 256}));
  EXPECT_THAT(with({}, 1, "q5"), HasSubstr("network.gather=q5: no such codec; choose bf16"));
  EXPECT_THAT(
      with({}, 1, "q8:x"),
      HasSubstr(
          "network.gather=q8:x: no such codec; choose bf16, q8, q4 or f4, alone or with ranks"));
  EXPECT_THAT(with({}, 1, "sign"), HasSubstr("needs residuals"));
  EXPECT_THAT(with({}, 1, "q8:stochastic"), HasSubstr("rounded to nearest; choose q8 or q4"));
  EXPECT_THAT(with({"parallel.tp=2"}, 2), HasSubstr("needs parallel.tp=1, or network.gather=none"));
  EXPECT_THAT(with({"parallel.cp=2"}, 2), HasSubstr("needs parallel.cp=1"));
  EXPECT_THAT(with({"precision.compute=fp64"}, 1), HasSubstr("needs precision.master=fp32"));
  EXPECT_THAT(with({"offload.optimizer=host"}, 1), HasSubstr("offload.optimizer=none"));
  EXPECT_THAT(with({"offload.params=host", "recompute.policy=full"}, 1),
              HasSubstr("offload.params=none"));
  EXPECT_THAT(with({"parallel.zero=1"}, 4, "q8:2"),
              HasSubstr("set parallel.zero=3, or leave the ranks out of network.gather"));
  EXPECT_THAT(with({"parallel.zero=3"}, 4, "q8:3"),
              HasSubstr("parallel.dp_shard=4 is not divisible by the ranks of network.gather=q8:3; "
                        "nearest that work: parallel.dp_shard=3 or parallel.dp_shard=6"));
}

TEST(Network, AlgorithmsFitTheirRanks) {
  const Job job = resolve(job_of({"network.algorithm=halving"}), 4, {.vocab = 256});
  EXPECT_EQ(job.network.algorithm, algorithm::Kind::kHalving);
  EXPECT_EQ(resolve(job_of({}), 4, {.vocab = 256}).network.algorithm, algorithm::Kind::kAuto);
  EXPECT_THAT(
      refusal({"network.algorithm=halving", "run.global_batch=6"}, 3),
      HasSubstr(
          "parallel.dp_replicate=1 x parallel.dp_shard=3 x parallel.cp=1 ranks are no power of "
          "two; choose tree"));
  EXPECT_THAT(refusal({"network.algorithm=ring", "run.device=cuda"}),
              HasSubstr("GPUs add by NCCL; set network.nccl"));
}

TEST(Network, SendersFitRanksAndMicroBatches) {
  EXPECT_THAT(refusal({"network.senders=2"}), HasSubstr("network.codec=none"));
  EXPECT_THAT(refusal({"network.codec=q8", "network.senders=2"}, 4),
              HasSubstr("parallel.zero=1 with parallel.dp_replicate=2"));
  EXPECT_THAT(refusal({"network.codec=q8", "network.senders=4", "parallel.zero=1",
                       "parallel.dp_replicate=2"},
                      4),
              HasSubstr("set network.senders=2, or parallel.zero=0"));
  EXPECT_THAT(refusal({"network.codec=q8", "network.senders=3"}), HasSubstr("a power of two"));
  EXPECT_THAT(refusal({"network.codec=q8", "run.global_batch=12"}, 2),
              HasSubstr("a step adds 12 sums"));
  // One rank adds the factors of any number of senders in the order of as many ranks.
  const std::vector<std::string> low_rank = {"network.codec=lowrank:4:0", "network.senders=3",
                                             "run.global_batch=12", "precision.group=1"};
  EXPECT_EQ(senders_of(low_rank, 1), 3);
  EXPECT_EQ(senders_of(low_rank, 3), 3);
}

}  // namespace
}  // namespace trireme::config::network_test
