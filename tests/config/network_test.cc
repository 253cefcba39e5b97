// Keys of coded sums: what a layout needs for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/error_of.h"
#include "trireme/config/resolve/check_network.h"
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
  EXPECT_EQ(senders_of({"network.codec=q4", "network.senders=8", "network.back=q8"}, 2), 8);
  EXPECT_EQ(senders_of({"network.codec=q8", "parallel.zero=3", "parallel.dp_replicate=2"}, 4), 2);
}

TEST(Network, CodecsThatNeedResidualsAreRefused) {
  EXPECT_THAT(refusal({"network.codec=q5"}),
              HasSubstr("network.codec=q5: no such codec; choose bf16, q8, q4 or f4"));
  EXPECT_THAT(refusal({"network.codec=q8", "network.back=int8"}), HasSubstr("network.back=int8"));
  for (const char* codec : {"sign", "topk:0.01:16"}) {
    const std::string set = std::string("network.codec=") + codec;
    EXPECT_THAT(refusal({set}), HasSubstr("set network.codec=" + std::string(codec) + ":fp32"));
    EXPECT_EQ(senders_of({set + ":bf16"}, 2), 2);
    EXPECT_THAT(refusal({set + ":fp16"}), HasSubstr(set + ":fp16: no such codec"));
    EXPECT_THAT(refusal({set + ":fp32", "offload.optimizer=host"}),
                HasSubstr("residuals stay in memory"));
    EXPECT_THAT(refusal({"network.codec=q8:fp32", std::string("network.back=") + codec}),
                HasSubstr("needs residuals, which only network.codec has"));
  }
  EXPECT_EQ(senders_of({"network.codec=q4:fp32"}, 2), 2);
  EXPECT_THAT(refusal({"network.codec=topk:fp32"}),
              AllOf(HasSubstr("network.codec=topk:fp32: no such codec"),
                    HasSubstr("topk:SHARE:BITS:fp32")));
  EXPECT_THAT(refusal({"network.codec=none:fp32"}), HasSubstr("no such codec"));
  EXPECT_EQ(senders_of({"network.codec=randk:0.1:32"}, 2), 2);
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
  EXPECT_THAT(with({"parallel.zero=3"}, 2), HasSubstr("needs parallel.zero=1, or"));
  EXPECT_THAT(with({"precision.compute=fp64"}, 1), HasSubstr("needs precision.grads=fp32"));
  EXPECT_THAT(with({"precision.numerics=fast"}, 1), HasSubstr("precision.numerics=canonical"));
  EXPECT_THAT(with({"offload.grads=host"}, 1), HasSubstr("offload.grads=none"));
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
}

}  // namespace
}  // namespace trireme::config::network_test
