// Decoders of Qwen2 and Qwen3, and with windows and scaled rotary frequencies: any layout trains the same model, in fp64
// to 1e-12 and data-parallel to the bit.
#include <gtest/gtest.h>

#include "tests/harness/small_jobs.h"

namespace trireme::train::qwen_test {
namespace {

using harness::expect_parity;
using harness::NamedLayout;
using harness::Sets;
using harness::operator+;

// Heads that are wider than hidden / heads, of which two read one key-value head.
config::Job job_of(DType compute, const Sets& sets) {
  return harness::small_llama(compute, Sets{"model.head_dim=12"} + sets);
}

const Sets kQwen2 = {"model.qkv_bias=true", "model.tied=false"};
const Sets kQwen3 = {"model.qk_norm=true"};
const Sets kBoth = {"model.qkv_bias=true", "model.qk_norm=true"};
const Sets kLora = {"model.qkv_bias=true", "model.qk_norm=true", "lora.rank=3", "lora.dropout=0.1"};
const Sets kFrozen = {"model.qkv_bias=true", "model.qk_norm=true", "model.frozen=embed,block.0",
                      "model.tied=false"};

// Windows shorter and longer than a cp rank's tokens, layers without rotary positions, scaled frequencies.
const Sets kScaled = {"model.layers=3", "model.attention_layers=sliding:3,sliding:11,nope",
                      "model.rope_scaling=yarn factor=4 original=8 fast=2 slow=0.5",
                      "model.tied=false"};
const Sets kDocuments = {"model.qk_norm=true", "model.attention_layers=sliding:6",
                         "model.rope_scaling=llama3 factor=4 original=8", "data.documents=true"};

const std::vector<NamedLayout> kLayouts = {
    {"tp 2", {"parallel.tp=2"}},
    {"tp 3", {"parallel.tp=3"}},
    {"tp 4, more ranks than key-value heads", {"parallel.tp=4"}},
    {"tp 4 without shared rows", {"parallel.tp=4", "parallel.sequence_parallel=false"}},
    {"tp 2, ZeRO-3", {"parallel.tp=2", "parallel.dp_shard=2", "parallel.zero=3"}},
    {"tp 2, recompute",
     {"parallel.tp=2", "parallel.dp_shard=2", "parallel.zero=2", "recompute.policy=full"}},
    {"parts computed again", {"recompute.policy=selective", "recompute.parts=norms,attention,mlp"}},
    {"cp 2", {"parallel.cp=2"}},
    {"cp 4 by all_gather", {"parallel.cp=4", "parallel.context=all_gather"}},
    {"Ulysses 2, ZeRO-3", {"parallel.cp=2", "parallel.context=ulysses", "parallel.zero=3"}},
    {"tp 2, cp 2", {"parallel.tp=2", "parallel.cp=2"}},
    {"pp 2, tp 2", {"parallel.pp=2", "parallel.tp=2"}},
    {"pp 2, weights later", {"parallel.pp=2", "parallel.schedule=zb_h1", "parallel.tp=2"}}};

TEST(QwenParity, EveryLayoutTrainsTheSameModel) {
  for (const Sets& family : {kQwen2, kQwen3, kBoth, kLora, kFrozen, kScaled, kDocuments}) {
    SCOPED_TRACE(harness::print(family));
    expect_parity([&](const Sets& layout) { return job_of(DType::kF64, family + layout); },
                  kLayouts);
  }
}

TEST(QwenParity, DataParallelLayoutsHaveTheBitsOfOneRank) {
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    const harness::JobTrace one = harness::run_job(job_of(compute, kBoth), 2);
    for (const Sets& layout :
         {Sets{"parallel.dp_shard=4"}, Sets{"parallel.dp_shard=2", "parallel.zero=3"}})
      harness::expect_same(one, harness::run_job(job_of(compute, kBoth + layout), 2));
  }
}

// Windows and scaled frequencies change the function.
TEST(QwenParity, WindowsAndScalingCount) {
  const harness::JobTrace plain = harness::run_job(job_of(DType::kF64, {}), 1);
  for (const char* set : {"model.attention_layers=sliding:3", "model.attention_layers=nope",
                          "model.rope_scaling=llama3 factor=4 original=8"})
    EXPECT_NE(plain.losses, harness::run_job(job_of(DType::kF64, {set}), 1).losses) << set;
  EXPECT_EQ(plain.losses,
            harness::run_job(job_of(DType::kF64, {"model.attention_layers=sliding:16"}), 1).losses)
      << "as wide as the sequence";
}

// Biases begin at 0, gains at 1: without an effect on the first loss, but on what follows.
TEST(QwenParity, WhatIsTheirOwnTrains) {
  const harness::JobTrace plain = harness::run_job(job_of(DType::kF64, {}), 2);
  const harness::JobTrace biased =
      harness::run_job(job_of(DType::kF64, {"model.qkv_bias=true"}), 2);
  EXPECT_EQ(plain.losses[0], biased.losses[0]);
  EXPECT_NE(plain.losses[1], biased.losses[1]);
  const harness::JobTrace normed = harness::run_job(job_of(DType::kF64, kQwen3), 2);
  EXPECT_NE(plain.losses[0], normed.losses[0]);
  for (const double gain : normed.states.at("model.layers.0.self_attn.q_norm.weight param"))
    EXPECT_NE(gain, 1);
}

}  // namespace
}  // namespace trireme::train::qwen_test
