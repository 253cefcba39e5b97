// Parameter groups: each parameter is updated as in a run whose keys are those of its group, under any layout.
#include <gtest/gtest.h>

#include "tests/harness/small_jobs.h"

namespace trireme::train::param_groups_test {
namespace {

using harness::expect_same;
using harness::JobTrace;
using harness::run_job;
using harness::Sets;
using harness::operator+;

constexpr int kSteps = 3;

config::Job job_of(const Sets& sets, DType compute = DType::kF32) {
  return harness::small_llama(compute, Sets{"model.tied=false"} + sets);
}

const Sets kGroups = {
    "optim.groups=[{match: \"*.mlp.*\", lr_mult: 0.5}, {match: block.1, weight_decay: 0.7},"
    " {match: \"*norm*\", lr_mult: 3, weight_decay: 0.01}, {match: embed, lr_mult: 0}]"};

// After one step, since later gradients see the other parameters.
void expect_as_by_hand(const Sets& group, const Sets& by_hand, const Sets& storage = {}) {
  const JobTrace grouped = run_job(job_of(storage + group), 1),
                 others = run_job(job_of(storage), 1), own = run_job(job_of(storage + by_hand), 1);
  int inside = 0;
  for (const auto& [name, values] : grouped.states) {
    const bool matched = name.find(".mlp.") != std::string::npos;
    EXPECT_EQ(values, (matched ? own : others).states.at(name)) << name;
    if (matched) inside += values != others.states.at(name);
  }
  EXPECT_GE(inside, 6);  // three matrices of both blocks
}

TEST(ParamGroups, UpdateAsARunWithTheirKeys) {
  for (const Sets& storage : {Sets{}, Sets{"precision.compute=fp64"},
                              Sets{"precision.compute=bf16", "precision.master=bf16"},
                              Sets{"precision.compute=bf16", "optim.states=int8"}}) {
    expect_as_by_hand({"optim.groups=[{match: \"*.mlp.*\", lr_mult: 0.25}]"}, {"optim.lr=2.5e-4"},
                      storage + Sets{"optim.lr=1e-3"});
    // A decay large enough to be seen in bf16.
    expect_as_by_hand({"optim.groups=[{match: \"*.mlp.*\", weight_decay: 50}]"},
                      {"optim.weight_decay=50"},
                      storage + Sets{"optim.lr=1e-2", "optim.weight_decay=25"});
  }
}

TEST(ParamGroups, ARateOfZeroLeavesParametersUnchanged) {
  const Sets groups = {"optim.groups=[{match: \"*.self_attn.*\", lr_mult: 0}]"};
  for (const Sets& storage : {Sets{}, Sets{"precision.compute=bf16", "precision.master=bf16"}}) {
    const JobTrace before = run_job(job_of(storage + groups), 0),
                   after = run_job(job_of(storage + groups), kSteps);
    for (const auto& [name, values] : before.states) {
      if (!name.ends_with(" param")) continue;
      EXPECT_EQ(values == after.states.at(name), name.find(".self_attn.") != std::string::npos)
          << name;
    }
  }
}

TEST(ParamGroups, AnyLayoutGivesTheSameBits) {
  const Sets bf16 = {"precision.compute=bf16"};
  for (const Sets& storage :
       {Sets{}, Sets{"optim.name=lion"}, bf16 + Sets{"precision.master=bf16"},
        bf16 + Sets{"optim.states=int8"}, bf16 + Sets{"optim.states=int8", "optim.name=lion"}}) {
    const JobTrace one = run_job(job_of(storage + kGroups), kSteps);
    EXPECT_NE(one.states, run_job(job_of(storage), kSteps).states);
    for (const Sets& layout :
         std::vector<Sets>{{"parallel.dp_replicate=2"},
                           {"parallel.dp_shard=2", "parallel.zero=1"},
                           {"parallel.dp_shard=2", "parallel.zero=2", "recompute.policy=full"},
                           {"parallel.dp_shard=4", "parallel.zero=3"},
                           {"parallel.dp_shard=2", "parallel.dp_replicate=2", "parallel.zero=3"},
                           {"parallel.pp=2", "parallel.dp_shard=2", "parallel.zero=1"},
                           {"offload.optimizer=host", "offload.params=host", "parallel.dp_shard=2",
                            "parallel.zero=3"}}) {
      SCOPED_TRACE(harness::print(storage + layout));
      expect_same(one, run_job(job_of(storage + kGroups + layout), kSteps));
    }
  }
}

TEST(ParamGroups, TensorParallelLayoutsTrainTheSame) {
  harness::expect_parity(
      [](const Sets& layout) { return job_of(kGroups + layout, DType::kF64); },
      {harness::kTp2, harness::kTpDp, {"tp 2, pp 2", {"parallel.tp=2", "parallel.pp=2"}}});
}

// Adapters are parameters as others.
TEST(ParamGroups, HaveAdapters) {
  const Sets lora = {"lora.rank=2"};
  const JobTrace plain = run_job(job_of(lora), 2),
                 grouped = run_job(job_of(lora + Sets{"optim.groups=[{match: \"*.lora_A.*\", "
                                                      "lr_mult: 0}]"}),
                                   2);
  for (const auto& [name, values] : grouped.states) {
    if (!name.ends_with(" param")) continue;
    EXPECT_EQ(values == plain.states.at(name), name.find("lora_") == std::string::npos) << name;
  }
}

}  // namespace
}  // namespace trireme::train::param_groups_test
