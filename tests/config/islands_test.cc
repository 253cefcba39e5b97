// network.outer: its settings, and the layouts that have islands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/error_of.h"
#include "trireme/config/resolve/outer_steps.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::config::islands_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Job resolved(const std::vector<std::string>& sets, int world) {
  Job job;
  apply_set(job, "run.micro_batch=1");
  apply_set(job, "run.global_batch=8");
  for (const std::string& set : sets) apply_set(job, set);
  return resolve(job, world, {.vocab = 256});
}

std::string refusal(const std::vector<std::string>& sets, int world = 2) {
  return usage_error_of([&] { resolved(sets, world); });
}

OuterSettings settings(const std::string& text) {
  Network network;
  network.outer = text;
  return outer_settings(network).value();
}

TEST(Islands, SettingsHaveDefaults) {
  EXPECT_FALSE(outer_settings(Network()));
  const OuterSettings plain = settings("islands:2");
  EXPECT_EQ(plain.islands, 2);
  EXPECT_EQ(plain.every, 30);
  EXPECT_EQ(plain.lr, 0.7);
  EXPECT_EQ(plain.momentum, 0.9);
  const OuterSettings streaming = settings("islands:4,every:100,fragments:6,delay:3");
  EXPECT_EQ(streaming.fragments, 6);
  EXPECT_EQ(streaming.blend, 0.5);
  EXPECT_EQ(streaming.lr, 0.4);
  EXPECT_EQ(settings("delay:3,lr:0.7,blend:0").blend, 0);
  const OuterSettings coded = settings("islands:2,codec:q4:bf16,back:q8");
  EXPECT_EQ(coded.codec, "q4");
  EXPECT_EQ(coded.residual, DType::kBF16);
  EXPECT_EQ(coded.back, "q8");
  EXPECT_FALSE(settings("islands:2,merge:mean").direction);
  EXPECT_TRUE(settings("islands:2,merge:direction").direction);
}

// As specified for Streaming DiLoCo; each setting may still be given.
TEST(Islands, StreamingIsOneValue) {
  const auto outer = [](const std::string& text, const std::string& layers) {
    return resolved({"network.outer=" + text, "model.layers=" + layers}, 2).network;
  };
  const Network network = outer("islands:2,streaming", "24");
  EXPECT_EQ(network.outer, "islands:2,fragments:8,delay:auto,blend:0.5,lr:0.4,codec:f4,back:q8");
  EXPECT_TRUE(finds_delay(network));
  Network found = network;
  found.outer = with_delay(network, 4);
  EXPECT_FALSE(finds_delay(found));
  const OuterSettings settings = outer_settings(found).value();
  EXPECT_EQ(settings.every, 30);
  EXPECT_EQ(settings.delay, 4);
  EXPECT_EQ(settings.momentum, 0.9);
  EXPECT_EQ(settings.codec, "f4");
  EXPECT_EQ(outer_settings(outer("islands:2,streaming", "4"))->fragments, 4);
  EXPECT_EQ(outer_settings(outer("islands:2,streaming", "9"))->fragments, 6);
  EXPECT_EQ(outer("streaming,islands:2,every:5,delay:2,codec:q4:bf16,lr:0.7", "12").outer,
            "islands:2,every:5,delay:2,codec:q4:bf16,lr:0.7,fragments:5,blend:0.5,back:q8");
  EXPECT_FALSE(finds_delay(Network()));
  EXPECT_THAT(refusal({"network.outer=islands:2,every:2,delay:auto"}), HasSubstr("raise it to 3"));
  EXPECT_THAT(refusal({"network.outer=islands:2,streaming,streaming"}), HasSubstr("set twice"));
}

TEST(Islands, WrongSettingsNameTheValueAndAWayOut) {
  EXPECT_THAT(refusal({"network.outer=every"}), HasSubstr("every; needs a whole number from 1"));
  EXPECT_THAT(refusal({"network.outer=islands:2.5"}), HasSubstr("islands:2.5; needs a whole"));
  EXPECT_THAT(refusal({"network.outer=lr:-1"}), HasSubstr("lr:-1; needs a number from 0 to 10"));
  EXPECT_THAT(refusal({"network.outer=island:2"}),
              AllOf(HasSubstr("unknown setting \"island\""), HasSubstr("islands, every")));
  EXPECT_THAT(refusal({"network.outer=every:2,every:3"}), HasSubstr("every is set twice"));
  EXPECT_THAT(refusal({"network.outer=every:2,fragments:3"}), HasSubstr("lower fragments"));
  EXPECT_THAT(refusal({"network.outer=every:5,delay:3"}), HasSubstr("lower it to 2"));
  EXPECT_THAT(refusal({"network.outer=blend:0.5"}), HasSubstr("blend needs a delay"));
  EXPECT_THAT(refusal({"network.outer=codec:q5"}),
              HasSubstr("codec:q5: no such codec; choose bf16"));
  EXPECT_THAT(refusal({"network.outer=codec:"}), HasSubstr("codec: needs a codec, such as f4"));
  EXPECT_THAT(refusal({"network.outer=codec:q4/q8"}), HasSubstr("give the way back as back:CODEC"));
  EXPECT_THAT(refusal({"network.outer=codec:sign"}), HasSubstr("set codec:sign:fp32"));
  EXPECT_THAT(refusal({"network.outer=merge:norm"}), HasSubstr("choose merge:mean or merge:dir"));
  EXPECT_THAT(refusal({"network.outer=islands:2,merge:direction", "parallel.tp=2"}, 4),
              HasSubstr("parallel.tp=2: it cuts layers whose norms merge:direction needs"));
  EXPECT_THAT(refusal({"network.outer=back:q8"}), HasSubstr("back needs a codec"));
  EXPECT_THAT(refusal({"network.outer=codec:f4,back:sign"}), HasSubstr("back:sign"));
  EXPECT_THAT(refusal({"network.outer=codec:i8x"}), HasSubstr("codec:i8x shares exponents"));
  EXPECT_THAT(refusal({"network.outer=codec:f4,back:i4x"}),
              HasSubstr("back:i4x: codec i4x adds codes of several senders"));
}

TEST(Islands, ReplicasAreDividedAmongIslands) {
  const Job job = resolved({"network.outer=islands:2"}, 4);
  EXPECT_EQ(job.parallel.dp_replicate, 2);
  EXPECT_EQ(job.parallel.dp_shard, 2);
  EXPECT_EQ(resolved({"network.outer=islands:2", "parallel.dp_replicate=4"}, 8).parallel.dp_shard,
            2);
  EXPECT_THAT(refusal({"network.outer=islands:3", "parallel.dp_replicate=4"}, 4),
              HasSubstr("not divisible by islands:3 of network.outer, which have equally many "
                        "replicas, with parallel.dp_shard for shards in each; nearest that work: "
                        "parallel.dp_replicate=3 or parallel.dp_replicate=6"));
}

TEST(Islands, WhatTheyDoNotMergeIsRefused) {
  const std::string outer = "network.outer=islands:2";
  EXPECT_THAT(refusal({outer, "run.spikes=[10, 100]", "checkpoint.every=10"}),
              HasSubstr("leave run.spikes out"));
  EXPECT_THAT(refusal({outer, "network.codec=q8"}), HasSubstr("set network.codec=none"));
  EXPECT_THAT(refusal({outer, "offload.optimizer=host"}), HasSubstr("set offload.optimizer=none"));
  EXPECT_THAT(refusal({outer, "precision.compute=bf16", "precision.master=bf16"}),
              HasSubstr("needs precision.master=fp32 or fp64, or network.outer=none"));
  EXPECT_THAT(refusal({outer, "optim.from_weights=true"}), HasSubstr("optim.from_weights=false"));
  EXPECT_THAT(refusal({outer, "model.family=clip", "parallel.schedule=gpipe", "data.source=scenes",
                       "model.seq_len=54"}),
              HasSubstr("the loss of model.family=clip compares the samples of all islands"));
}

TEST(Islands, TheSettingIsFixedForTheLifeOfARun) {
  Job before, after;
  before.network.outer = "islands:2";
  after.network.outer = "islands:2,every:10";
  EXPECT_THAT(usage_error_of([&] { check_resumable(before, after); }),
              HasSubstr("network.outer was"));
}

}  // namespace
}  // namespace trireme::config::islands_test
