// Keys that freeze and adapt: what goes together, and what a resume may change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/error_of.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/saving.h"

namespace trireme::config::training_test {
namespace {

using ::testing::HasSubstr;

std::string training_refusal(const std::vector<std::string>& sets) {
  Job job;
  for (const std::string& set : sets) apply_set(job, set);
  return usage_error_of([&] { resolve(job, 1, {.vocab = 256}); });
}

TEST(Training, KeysWithoutUseAreRefused) {
  EXPECT_THAT(training_refusal({"lora.alpha=8"}),
              HasSubstr("lora.alpha=8 with lora.rank=0: rank 0 means no adapters"));
  EXPECT_THAT(training_refusal({"lora.also=head"}), HasSubstr("lora.also=head with lora.rank=0"));
  EXPECT_THAT(training_refusal({"lora.targets=mlp", "lora.dropout=0.5"}),
              HasSubstr("lora.dropout=0.5, lora.targets=mlp with lora.rank=0"));
  EXPECT_THAT(training_refusal({"model.frozen=head,block.[0"}),
              HasSubstr("model.frozen=head,block.[0: the brackets of \"block.[0\""));
  EXPECT_THAT(training_refusal({"lora.rank=4", "lora.also=block.[a]"}),
              HasSubstr("lora.also=block.[a]: "));
  EXPECT_THAT(training_refusal({"lora.rank=65"}),
              HasSubstr("lora.rank=65 is more than 64, the rank of the largest layer"));
  EXPECT_THAT(training_refusal({"lora.rank=33", "lora.targets=mlp", "model.ffn=32"}),
              HasSubstr("lower it to 32 or less"));
  EXPECT_THAT(training_refusal({"lora.rank=4", "model.frozen=embed"}),
              HasSubstr("name units that also train in lora.also"));
  EXPECT_THAT(training_refusal({"checkpoint.trainable_only=true"}), HasSubstr("every unit trains"));
  EXPECT_THAT(training_refusal({"checkpoint.trainable_only=true", "lora.rank=4"}),
              HasSubstr("set model.weights to the checkpoint that holds them"));
}

TEST(Training, RefusesRetentionThatKeepsNothingMore) {
  EXPECT_THAT(
      training_refusal({"checkpoint.keep_also=[10, 0]"}),
      HasSubstr("checkpoint.keep_also=[10, 0] with checkpoint.keep_last=0: all are kept anyway"));
  EXPECT_THAT(training_refusal({"checkpoint.keep_also=[0, 1]"}),
              HasSubstr("all are kept anyway; set keep_last"));
  EXPECT_THAT(training_refusal({"checkpoint.keep_last=2", "checkpoint.keep_also=[0, 1]"}),
              HasSubstr("need a validation at each checkpoint"));
  EXPECT_THAT(training_refusal({"checkpoint.keep_last=2", "checkpoint.keep_also=[0, 1]",
                                "checkpoint.every=10", "run.eval_every=4"}),
              HasSubstr("checkpoint.every=10 is not a multiple of run.eval_every=4"));
  Job job;
  for (const char* set : {"checkpoint.keep_last=2", "checkpoint.keep_also=[50, 1]",
                          "checkpoint.every=10", "run.eval_every=5"})
    apply_set(job, set);
  EXPECT_NO_THROW(resolve(job, 1, {.vocab = 256}));
}

TEST(Training, RefusesSnapshotsInMemoryThatCannotBe) {
  EXPECT_THAT(training_refusal({"checkpoint.memory_every=5", "offload.optimizer=nvme"}),
              HasSubstr("do not fit in memory; set memory_every=0"));
  Job job;
  for (const char* set : {"checkpoint.memory_every=5", "offload.activations=nvme"})
    apply_set(job, set);
  EXPECT_NO_THROW(resolve(job, 1, {.vocab = 256}));
}

TEST(Training, RanksGoUpToThoseOfTheLayers) {
  Job job;
  apply_set(job, "lora.rank=64");  // model.hidden
  EXPECT_NO_THROW(resolve(job, 1, {.vocab = 256}));
}

TEST(Training, WhatTrainsIsFixedForARun) {
  const Job plain;
  for (const char* set : {"model.frozen=embed", "lora.rank=4", "lora.alpha=8", "lora.dropout=0.1",
                          "lora.targets=mlp", "lora.also=head"}) {
    Job changed;
    apply_set(changed, set);
    const std::string key(set, std::string(set).find('='));
    EXPECT_THAT(usage_error_of([&] { check_resumable(plain, changed); }), HasSubstr(key));
  }
  for (const char* set : {"model.weights=elsewhere/step-4", "checkpoint.trainable_only=true"}) {
    Job changed;
    apply_set(changed, set);
    EXPECT_NO_THROW(check_resumable(plain, changed)) << set;
  }
}

// What is on a disk for want of memory is not copied into it to be saved.
TEST(Saving, GoesOnBehindTrainingUnlessStatesWaitOnADisk) {
  Job job;
  EXPECT_TRUE(saves_async(job));
  job.offload.optimizer = Tier::kHost;
  job.offload.activations = Tier::kNvme;
  EXPECT_TRUE(saves_async(job));
  job.offload.optimizer = Tier::kNvme;
  EXPECT_FALSE(saves_async(job));
  job = {};
  job.offload.params = Tier::kNvme;
  EXPECT_FALSE(saves_async(job));
  job = {};
  job.checkpoint.async = false;
  EXPECT_FALSE(saves_async(job));
}

}  // namespace
}  // namespace trireme::config::training_test
