// Jobs with frozen units and adapters: any layout trains the same, and what is frozen keeps its bits.
#include <gtest/gtest.h>

#include "tests/harness/small_jobs.h"

namespace trireme::train::lora_test {
namespace {

using harness::JobTrace;
using harness::run_job;
using harness::Sets;
using harness::operator+;

constexpr int kSteps = 3;

config::Job job_of(const Sets& training, DType compute, const Sets& layout = {}) {
  return harness::small_llama(compute, training + layout);
}

const Sets kLora = {"lora.rank=3", "lora.dropout=0.1"};
const Sets kSome = {"lora.rank=3", "lora.targets=mlp", "lora.also=head"};
const Sets kDora = {"lora.rank=3", "lora.dropout=0.1", "lora.dora=true", "lora.scaling=root_rank",
                    "model.qkv_bias=true"};
const Sets kGptDora = {"model.family=gpt", "model.kv_heads=4", "lora.rank=2", "lora.dora=true",
                       "lora.also=block.1"};
const Sets kFrozen = {"model.frozen=embed,block.0", "model.tied=false"};
const Sets kGpt = {"model.family=gpt", "model.kv_heads=4", "model.dropout=0.1", "lora.rank=2",
                   "lora.dropout=0.1"};

// Every row, shards and replicas, with recomputation: the bits of one rank.
TEST(LoraJobs, DataParallelLayoutsGiveTheSameBits) {
  for (const Sets& training : {kLora, kSome, kFrozen, kGpt, kDora, kGptDora})
    for (const DType compute : {DType::kF32, DType::kBF16}) {
      const JobTrace one = run_job(job_of(training, compute), kSteps);
      EXPECT_GT(one.grad_norms[0], 0);
      for (const Sets& layout :
           std::vector<Sets>{{"parallel.dp_shard=2", "parallel.zero=0"},
                             {"parallel.dp_shard=2", "parallel.zero=1"},
                             {"parallel.dp_shard=4", "parallel.zero=2", "recompute.policy=full"},
                             {"parallel.dp_shard=2", "parallel.zero=3"},
                             {"parallel.dp_shard=2", "parallel.dp_replicate=2", "parallel.zero=3",
                              "recompute.policy=full"}}) {
        const JobTrace other = run_job(job_of(training, compute, layout), kSteps);
        const std::string where = testing::PrintToString(training) + testing::PrintToString(layout);
        EXPECT_EQ(other.losses, one.losses) << where;
        EXPECT_EQ(other.grad_norms, one.grad_norms) << where;
        EXPECT_EQ(other.states, one.states) << where;
      }
    }
}

TEST(LoraJobs, TensorContextAndPipelineLayoutsTrainTheSame) {
  for (const Sets& training : {kLora, kSome, kFrozen, kGpt, kDora, kGptDora}) {
    const JobTrace one = run_job(job_of(training, DType::kF64), kSteps);
    for (const Sets& layout : std::vector<Sets>{
             {"parallel.tp=2"},
             {"parallel.tp=3"},
             {"parallel.tp=4", "parallel.sequence_parallel=false"},
             {"parallel.tp=2", "parallel.dp_shard=2", "parallel.zero=3"},
             {"parallel.tp=2", "parallel.dp_shard=2", "parallel.zero=2", "recompute.policy=full"},
             {"parallel.cp=2"},
             {"parallel.cp=2", "parallel.context=ulysses", "parallel.zero=3"},
             {"parallel.tp=2", "parallel.cp=2"},
             {"parallel.pp=2", "parallel.tp=2"},
             {"parallel.pp=2", "parallel.schedule=zb_h1", "parallel.tp=2"}}) {
      const double apart = distance(run_job(job_of(training, DType::kF64, layout), kSteps), one);
      EXPECT_LT(apart, 1e-12) << testing::PrintToString(training) << testing::PrintToString(layout);
    }
  }
}

// Untied, since gradients of a tied unit are added chunk by chunk.
TEST(LoraJobs, PipelinesHaveTheBitsOfOneRank) {
  for (const Sets& training : {kLora, kSome, kFrozen, kDora}) {
    const Sets untied = {"model.tied=false"};
    const JobTrace one = run_job(job_of(training, DType::kF32, untied), kSteps);
    for (Sets layout : std::vector<Sets>{{"parallel.pp=2"},
                                         {"parallel.pp=2", "parallel.schedule=zb_h1"},
                                         {"parallel.pp=4", "parallel.schedule=zb_h2"},
                                         {"parallel.pp=2", "parallel.schedule=zb_v"},
                                         {"parallel.pp=2", "parallel.schedule=zb_auto",
                                          "parallel.dp_shard=2", "parallel.zero=3"}}) {
      layout.push_back(untied[0]);
      const JobTrace other = run_job(job_of(training, DType::kF32, layout), kSteps);
      const std::string where = testing::PrintToString(training) + testing::PrintToString(layout);
      EXPECT_EQ(other.losses, one.losses) << where;
      EXPECT_EQ(other.states, one.states) << where;
    }
  }
}

// What waits elsewhere, runs again or has another type: the bits are those of one rank that does without.
TEST(LoraJobs, GoTogetherWithWhatSavesMemory) {
  for (const Sets& training : {kLora, kSome, kFrozen, kGpt, kDora, kGptDora}) {
    const auto same = [&](const Sets& base, const std::vector<Sets>& others) {
      const auto job = [&](Sets sets) {
        sets.insert(sets.end(), base.begin(), base.end());
        return job_of(training, DType::kF32, sets);
      };
      const JobTrace one = run_job(job({}), kSteps);
      for (const Sets& sets : others) {
        const JobTrace other = run_job(job(sets), kSteps);
        const std::string where = testing::PrintToString(training) + testing::PrintToString(base) +
                                  testing::PrintToString(sets);
        EXPECT_EQ(other.losses, one.losses) << where;
        EXPECT_EQ(other.states, one.states) << where;
      }
    };
    const std::string shards = "parallel.dp_shard=2", zero = "parallel.zero=3";
    same({}, {{"offload.optimizer=host", "offload.params=host"},
              {"offload.params=host", "offload.grads=host", "offload.optimizer=host", shards, zero},
              {"recompute.policy=selective", "recompute.parts=norms,attention,mlp"},
              {"recompute.policy=selective", "recompute.parts=mlp", shards, zero},
              {"recompute.policy=full", "offload.activations=host"},
              {"recompute.policy=full:2", shards}});
    same({"precision.compute=fp16"}, {{shards, zero}, {"recompute.policy=full"}});
    same({"precision.compute=bf16", "precision.nodes=block.1=fp32"}, {{shards, zero}});
    same({"optim.states=int8"}, {{shards, zero}});
  }
}

// What is frozen has no state of the optimizer, and its bits after three steps are those of none.
TEST(LoraJobs, WhatIsFrozenStaysAndHasNoStates) {
  for (const Sets& training : {kLora, kFrozen, kDora})
    for (const Sets& layout : {Sets{}, Sets{"parallel.dp_shard=2", "parallel.zero=3"}}) {
      const config::Job job = job_of(training, DType::kBF16, layout);
      const JobTrace before = run_job(job, 0), after = run_job(job, kSteps);
      int moved = 0, stayed = 0;
      for (const auto& [name, values] : before.states) {
        if (!name.ends_with(" param")) continue;
        const bool trains = before.states.contains(name.substr(0, name.size() - 5) + "exp_avg");
        ++(trains ? moved : stayed);
        const bool adapter = name.find("lora_") != std::string::npos;
        EXPECT_EQ(trains, training != kFrozen
                              ? adapter
                              : name.starts_with("model.layers.1") ||
                                    name.starts_with("model.norm") || name.starts_with("lm_head"))
            << name;
        EXPECT_EQ(after.states.at(name) != values, trains) << name;
      }
      EXPECT_GT(moved, 8);
      EXPECT_GT(stayed, 8);
    }
}

// The controls of the comparison above.
TEST(LoraJobs, WrongScaleIsSeen) {
  const JobTrace one = run_job(job_of(kLora, DType::kF64), kSteps);
  const JobTrace other =
      run_job(job_of(kLora, DType::kF64, {"parallel.tp=2", "lora.alpha=16.0000001"}), kSteps);
  EXPECT_GT(distance(other, one), 100 * 1e-12);
}

}  // namespace
}  // namespace trireme::train::lora_test
