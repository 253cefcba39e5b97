// OLMo, Gemma, Granite, Phi-3 and biases: any layout trains the same model, in fp64 to 1e-12 and data-parallel to the bit.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/harness/small_jobs.h"

namespace trireme::train::llama_relatives_parity_test {
namespace {

using harness::expect_parity;
using harness::NamedLayout;
using harness::Sets;
using harness::operator+;

// Heads that are wider than hidden / heads, of which two read one key-value head.
config::Job job_of(DType compute, const Sets& sets) {
  return harness::small_llama(compute, Sets{"model.head_dim=12"} + sets);
}

const Sets kOlmo = {"llama.norms=after", "model.qk_norm=true", "llama.whole_qk_norm=true",
                    "model.tied=false"};
const Sets kGemma = {"llama.norms=both",
                     "model.qk_norm=true",
                     "llama.gains_from_one=true",
                     "llama.gate=gelu_tanh",
                     "llama.embedding_multiplier=5.6",
                     "llama.sliding_theta=100",
                     "model.attention_layers=sliding:6,full",
                     "model.rope_scaling=linear factor=4"};
const Sets kGranite = {"llama.embedding_multiplier=12", "llama.residual_multiplier=0.22",
                       "llama.attention_multiplier=0.05", "llama.logits_divisor=8",
                       "model.attention_layers=full,nope"};
const Sets kGemma2 = {"llama.norms=both",
                      "llama.gains_from_one=true",
                      "llama.gate=gelu_tanh",
                      "llama.embedding_multiplier=5.6",
                      "llama.attention_cap=0.5",
                      "llama.logits_cap=2",
                      "model.attention_layers=sliding:6,full"};
const Sets kBiased = {"model.qkv_bias=true", "llama.output_bias=true",
                      "llama.feed_forward_bias=true", "llama.residual_multiplier=0.5"};
const Sets kPhi = {"llama.rotary_fraction=0.5", "llama.attention_multiplier=0.4",
                   "model.rope_scaling=longrope factor=4 original=8 short=1,1,1 long=1.5,2,7"};
const Sets kLora = {"lora.rank=3", "lora.dropout=0.1"};
const Sets kFrozen = {"model.frozen=embed,block.0", "model.tied=false"};
const Sets kDocuments = {"data.documents=true"};

const std::vector<NamedLayout> kLayouts = {
    {"tp 2", {"parallel.tp=2"}},
    {"tp 3", {"parallel.tp=3"}},
    {"tp 4 without shared rows", {"parallel.tp=4", "parallel.sequence_parallel=false"}},
    {"tp 2, ZeRO-3", {"parallel.tp=2", "parallel.dp_shard=2", "parallel.zero=3"}},
    {"tp 2, recompute",
     {"parallel.tp=2", "parallel.dp_shard=2", "parallel.zero=2", "recompute.policy=full"}},
    {"parts computed again", {"recompute.policy=selective", "recompute.parts=attention,mlp"}},
    {"cp 2", {"parallel.cp=2"}},
    {"Ulysses 2, ZeRO-3", {"parallel.cp=2", "parallel.context=ulysses", "parallel.zero=3"}},
    {"tp 2, cp 2 by all_gather", {"parallel.tp=2", "parallel.cp=2", "parallel.context=all_gather"}},
    {"pp 2, weights later", {"parallel.pp=2", "parallel.schedule=zb_h1", "parallel.tp=2"}}};

TEST(LlamaRelativesParity, EveryLayoutTrainsTheSameModel) {
  const auto expect = [](const Sets& family, const std::vector<NamedLayout>& layouts) {
    SCOPED_TRACE(harness::print(family));
    expect_parity([&](const Sets& layout) { return job_of(DType::kF64, family + layout); },
                  layouts);
  };
  for (const Sets& family : {kOlmo, kGemma, kGranite, kGemma2, kBiased}) expect(family, kLayouts);
  const std::vector<NamedLayout> few = {
      {"tp 2, cp 2", {"parallel.tp=2", "parallel.cp=2"}},
      {"pp 2, weights later", {"parallel.pp=2", "parallel.schedule=zb_h1", "parallel.tp=2"}}};
  for (const Sets& family :
       {kOlmo + kLora, kGemma + kFrozen, kGranite + kDocuments, kGemma + kDocuments,
        kGemma2 + kDocuments, kGemma2 + kLora, kBiased + kLora, kBiased + kFrozen, kPhi})
    expect(family, few);
}

TEST(LlamaRelativesParity, LayoutsWithoutTensorRanksHaveTheBitsOfOneRank) {
  // Stages add the two gradients of a tied embedding in another order.
  const Sets untied = {"model.tied=false"};
  for (const Sets& family : {kOlmo, kGemma, kGranite, kGemma2, kBiased, kPhi}) {
    const harness::JobTrace one = harness::run_job(job_of(DType::kBF16, family + untied), 2);
    for (const Sets& layout :
         {Sets{"parallel.dp_shard=4"}, Sets{"parallel.dp_shard=2", "parallel.zero=3"},
          Sets{"parallel.pp=2"}, Sets{"recompute.policy=selective"}}) {
      SCOPED_TRACE(harness::print(family + layout));
      harness::expect_same(one,
                           harness::run_job(job_of(DType::kBF16, family + untied + layout), 2));
    }
  }
}

TEST(LlamaRelativesParity, WhatIsTheirOwnChangesTheFunction) {
  const Sets base = {"model.qk_norm=true", "model.attention_layers=sliding:6,full"};
  const harness::JobTrace plain = harness::run_job(job_of(DType::kF64, base), 2);
  for (const char* set :
       {"llama.norms=after", "llama.norms=both", "llama.whole_qk_norm=true", "llama.gate=gelu_tanh",
        "llama.sliding_theta=100", "llama.attention_multiplier=0.05",
        "llama.embedding_multiplier=3", "llama.residual_multiplier=0.3", "llama.logits_divisor=8",
        "llama.attention_cap=0.01", "llama.logits_cap=1", "llama.rotary_fraction=0.5"})
    EXPECT_NE(plain.losses, harness::run_job(job_of(DType::kF64, base + Sets{set}), 2).losses)
        << set;
  // Biases begin at 0, and are trained.
  for (const char* set : {"llama.output_bias=true", "llama.feed_forward_bias=true"}) {
    const harness::JobTrace biased = harness::run_job(job_of(DType::kF64, base + Sets{set}), 2);
    EXPECT_EQ(plain.losses[0], biased.losses[0]) << set;
    EXPECT_NE(plain.losses[1], biased.losses[1]) << set;
  }
  // Gains begin at 0 and are added to 1: the same function.
  const harness::JobTrace from_one =
      harness::run_job(job_of(DType::kF64, base + Sets{"llama.gains_from_one=true"}), 1);
  EXPECT_NEAR(plain.losses[0], from_one.losses[0], 1e-12);
}

}  // namespace
}  // namespace trireme::train::llama_relatives_parity_test
