// Which units train, which adapters there are, and how tensor parallelism cuts them.
#include "trireme/model/training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/error_of.h"
#include "tests/harness/vjepa_jobs.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/families/describe.h"

namespace trireme::model::training_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

config::Job job_of(const std::vector<std::string>& sets, int world = 1) {
  config::Job job;
  job.model = {.layers = 3, .hidden = 32, .heads = 4, .ffn = 48, .vocab = 64, .seq_len = 16};
  for (const std::string& set : sets) config::apply_set(job, set);
  return config::resolve(job, world, {});
}

std::vector<std::string> trained(const std::vector<std::string>& sets) {
  std::vector<std::string> names;
  for (const plan::Unit& unit : describe(job_of(sets)).program.units)
    if (unit.trainable) names.push_back(unit.name);
  return names;
}

TEST(Training, PatternsNameUnits) {
  EXPECT_THAT(trained({}), ElementsAre("embed", "block.0", "block.1", "block.2", "head"));
  EXPECT_THAT(trained({"model.frozen=embed,block.[0-1]"}), ElementsAre("block.2", "head"));
  EXPECT_THAT(trained({"model.frozen=block.*"}), ElementsAre("embed", "head"));
  EXPECT_THAT(trained({"lora.rank=2"}),
              ElementsAre("block.0.lora", "block.1.lora", "block.2.lora"));
  EXPECT_THAT(trained({"lora.rank=2", "lora.also=block.2,h*"}),
              ElementsAre("block.0.lora", "block.1.lora", "block.2", "block.2.lora", "head"));
}

TEST(Training, PatternsThatNameNothingAndNothingToTrainAreRefused) {
  const auto refusal = [](const std::vector<std::string>& sets) {
    return config::usage_error_of([&] { describe(job_of(sets)); });
  };
  EXPECT_THAT(refusal({"model.frozen=embed,blocks.0"}),
              HasSubstr("model.frozen=embed,blocks.0: \"blocks.0\" matches none"));
  EXPECT_THAT(refusal({"lora.rank=2", "lora.also=norm"}), HasSubstr("lora.also=norm: \"norm\""));
  // Adapters are no units of the model's own.
  EXPECT_THAT(refusal({"lora.rank=2", "lora.also=block.0.lora"}), HasSubstr("matches none"));
  EXPECT_THAT(refusal({"model.frozen=*"}), HasSubstr("freezes every unit"));
}

TEST(Training, WhatStandsOnAFrozenTowerHasSomethingToTrain) {
  const auto probe = [](const char* frozen) {
    describe(config::resolve(harness::vjepa_job(config::Family::kProbe, {frozen}), 1, {}));
  };
  EXPECT_THAT(config::usage_error_of([&] { probe("model.frozen=block.*,head"); }),
              HasSubstr("leaves family probe nothing"));
  EXPECT_NO_THROW(probe("model.frozen=block.*"));
}

TEST(Training, TargetsChooseLayers) {
  const auto layers = [](const std::vector<std::string>& sets) {
    std::vector<std::string> names;
    const ModelSpec spec = describe(job_of(sets));
    for (const ParamSpec& param : spec.units[2].params)
      if (const std::size_t at = param.name.find(".lora_A"); at != std::string::npos)
        names.push_back(param.name.substr(0, at));
    return names;
  };
  const std::string h = "transformer.h.0.";
  EXPECT_THAT(layers({"lora.rank=2", "lora.targets=attention"}),
              ElementsAre(h + "attn.c_attn", h + "attn.c_proj"));
  EXPECT_THAT(layers({"lora.rank=2", "lora.targets=mlp"}),
              ElementsAre(h + "mlp.c_fc", h + "mlp.c_proj"));
  EXPECT_EQ(layers({"lora.rank=2"}).size(), 4u);
  EXPECT_EQ(layers({"lora.rank=2", "model.family=llama"}).size(), 7u);
  const std::string l = "model.layers.0.self_attn.";
  EXPECT_THAT(layers({"lora.rank=2", "model.family=llama", "lora.targets=query_value"}),
              ElementsAre(l + "q_proj", l + "v_proj"));
  EXPECT_THAT(config::usage_error_of([] {
                job_of({"lora.rank=2", "lora.targets=query_value"});
              }),
              HasSubstr("lora.targets=query_value"));
}

// Qwen3-VL-2B, rank 16.
TEST(Training, AdaptersOfAPublishedModelAddUp) {
  const auto adapters = [](const std::string& targets) {
    config::Job job;
    for (const char* set :
         {"model.family=llama", "model.layers=28", "model.hidden=2048", "model.heads=16",
          "model.kv_heads=8", "model.ffn=6144", "model.vocab=151936", "model.seq_len=64",
          "lora.rank=16", "lora.alpha=32"})
      config::apply_set(job, set);
    config::apply_set(job, "lora.targets=" + targets);
    std::int64_t sum = 0;
    for (const plan::Unit& unit : describe(config::resolve(job, 1, {})).program.units)
      if (unit.trainable) sum += unit.numel;
    return sum;
  };
  EXPECT_EQ(adapters("query_value"), 3211264);
  EXPECT_EQ(adapters("attention"), 6422528);
  EXPECT_EQ(adapters("all"), 17432576);
}

// What all ranks hold is a part of a sum; the rest is cut as the layer's weight.
// Rank 16 on the decoder of Qwen3-VL-2B.
TEST(Training, AdaptersHaveTheSpecifiedParameters) {
  const auto adapters = [](const std::string& targets) {
    const ModelSpec spec = describe(
        job_of({"model.family=llama", "model.layers=28", "model.hidden=2048", "model.heads=16",
                "model.kv_heads=8", "model.ffn=6144", "lora.rank=16", "lora.targets=" + targets}));
    std::int64_t count = 0;
    for (const UnitSpec& unit : spec.units)
      if (unit.name.ends_with(".lora"))
        for (const ParamSpec& param : unit.params) count += param.numel();
    return count;
  };
  EXPECT_EQ(adapters("attention"), 6'422'528);
  EXPECT_EQ(adapters("all"), 17'432'576);
}

TEST(Training, AdaptersAreCutWithTheirLayer) {
  const ModelSpec spec = describe(
      job_of({"lora.rank=2", "model.family=llama", "model.kv_heads=2", "parallel.tp=4"}, 4));
  const UnitSpec& unit = spec.units[2];
  EXPECT_EQ(unit.name, "block.0.lora");
  std::int64_t partial = 0;
  for (const ParamSpec& param : unit.params) {
    const bool down = param.name.find("lora_A") != std::string::npos;
    const bool closing = param.name.find("o_proj") != std::string::npos ||
                         param.name.find("down_proj") != std::string::npos;
    const LocalParam local = local_param(param, 1, 4);
    EXPECT_EQ(local.shape == param.shape, down != closing) << param.name;
    if (down != closing) {
      EXPECT_TRUE(local.partial) << param.name;
    }
    if (local.partial) partial += param.numel();
  }
  EXPECT_EQ(spec.program.units[2].tp_partial, partial);
  EXPECT_EQ(spec.program.units[1].tp_partial, 0);  // frozen: there is nothing to add
}

TEST(Training, ModelFlopsLeaveOutWhatIsNotComputed) {
  const auto flops = [](const std::vector<std::string>& sets) {
    return describe(job_of(sets)).flops_per_token;
  };
  // Causal attention is half of what it would be; a table is looked up, and multiplied as the tied head.
  const double attention = 32 * 16, head = 64 * 32, block = 4 * 32 * 32 + 2 * 32 * 48;
  EXPECT_EQ(flops({}), 6 * (head + 3 * (block + attention)));
  // First block: forward alone. The tied head: without its weight's gradient.
  EXPECT_EQ(flops({"model.frozen=embed,block.0"}),
            4 * head + 2 * (block + attention) + 2 * 6 * (block + attention));
  const double adapters = 2 * (32 + 96 + 32 + 32 + 32 + 48 + 48 + 32);
  const double lora = flops({"lora.rank=2"});
  EXPECT_LT(lora, 4 * (head + 3 * block) + 6 * 3 * (adapters + attention) + 1);
  EXPECT_GT(lora, 0.9 * (4 * (head + 3 * block) + 6 * 3 * (adapters + attention)));
}

}  // namespace
}  // namespace trireme::model::training_test
