// Qwen2 and Qwen3 as data: published parameter counts to the last one, and where their own parameters stand.
#include <gtest/gtest.h>

#include "trireme/config/resolve/resolve.h"
#include "trireme/families/llama/model.h"
#include "trireme/model/families/describe.h"

namespace trireme::model::qwen_test {
namespace {

using config::Family;
using config::Model;

TEST(Qwen, ParameterCountsOfPublishedModels) {
  struct Row {
    const char* name;
    Model model;
    std::int64_t parameters;
  };
  const auto qwen3 = [](std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                        std::int64_t ffn, bool tied) {
    return Model{.family = Family::kLlama,
                 .layers = layers,
                 .hidden = hidden,
                 .heads = heads,
                 .kv_heads = 8,
                 .head_dim = 128,
                 .qk_norm = true,
                 .ffn = ffn,
                 .vocab = 151936,
                 .seq_len = 4096,
                 .tied = tied};
  };
  const std::vector<Row> rows = {{"Qwen2-7B",
                                  {.family = Family::kLlama,
                                   .layers = 28,
                                   .hidden = 3584,
                                   .heads = 28,
                                   .kv_heads = 4,
                                   .qkv_bias = true,
                                   .ffn = 18944,
                                   .vocab = 152064,
                                   .seq_len = 4096,
                                   .tied = false},
                                  7'615'616'512},
                                 {"Qwen3-0.6B", qwen3(28, 1024, 16, 3072, true), 596'049'920},
                                 {"Qwen3-1.7B", qwen3(28, 2048, 16, 6144, true), 1'720'574'976},
                                 {"Qwen3-VL 4B", qwen3(36, 2560, 32, 9728, true), 4'022'468'096},
                                 {"Qwen3-VL 8B", qwen3(36, 4096, 32, 12288, false), 8'190'735'360}};
  for (const Row& row : rows)
    EXPECT_EQ(llama_spec({.model = row.model}, {}).parameters(), row.parameters) << row.name;
}

TEST(Qwen, RecipesHaveThePublishedParameters) {
  for (const auto& [recipe, parameters] :
       {std::pair<const char*, std::int64_t>{"qwen2_7b.yaml", 7'615'616'512},
        std::pair<const char*, std::int64_t>{"qwen3_0b6.yaml", 596'049'920},
        std::pair<const char*, std::int64_t>{"llama3_2_1b.yaml", 1'235'814'400},
        std::pair<const char*, std::int64_t>{"mistral_7b.yaml", 7'241'732'096},
        std::pair<const char*, std::int64_t>{"smollm3_3b.yaml", 3'075'098'624}}) {
    const config::Job job = config::load_job(Path(TRIREME_SOURCE_DIR) / "recipes" / recipe);
    EXPECT_EQ(describe(config::resolve(job, job.parallel.tp * job.parallel.pp, {})).parameters(),
              parameters)
        << recipe;
  }
}

// Operations of a block are those of the scores that its window shows, and a layer's are its own.
TEST(Decoder, WindowsTakeAwayTheWorkOfWhatTheyHide) {
  constexpr std::int64_t kTokens = 512, kWindow = 100, kWidth = 32;
  const Model model{.family = Family::kLlama,
                    .layers = 3,
                    .hidden = kWidth,
                    .heads = 4,
                    .kv_heads = 2,
                    .attention_layers = "full,sliding:100,nope",
                    .ffn = 48,
                    .vocab = 64,
                    .seq_len = kTokens};
  const std::vector<plan::Node> nodes = llama_spec({.model = model}, {}).program.nodes;
  std::int64_t hidden = 0;
  for (std::int64_t token = 0; token < kTokens; ++token)
    hidden += std::max<std::int64_t>(0, token + 1 - kWindow);
  // A score is a product over a head's width, and so is what it weighs.
  const double wanted = 4.0 * static_cast<double>(hidden * kWidth);
  EXPECT_NEAR((nodes[1].flops - nodes[2].flops) / wanted, 1, 0.01);
  EXPECT_EQ(nodes[1].flops, nodes[3].flops);
  EXPECT_EQ(scored_tokens(kTokens, 0), kTokens);
  EXPECT_EQ(scored_tokens(kTokens, kTokens + 1), kTokens);
}

Model small() {
  return {.family = Family::kLlama,
          .layers = 1,
          .hidden = 32,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 12,
          .qkv_bias = true,
          .qk_norm = true,
          .ffn = 48,
          .vocab = 64,
          .seq_len = 16};
}

TEST(Qwen, ParametersHaveHuggingFacesNamesAndStandBehindLlamas) {
  const ModelSpec spec = llama_spec({.model = small()}, {});
  const std::vector<ParamSpec>& params = spec.units[1].params;
  const std::vector<std::pair<std::string, std::vector<std::int64_t>>> wanted = {
      {"q_proj.bias", {48}},
      {"k_proj.bias", {24}},
      {"v_proj.bias", {24}},
      {"q_norm.weight", {12}},
      {"k_norm.weight", {12}}};
  ASSERT_EQ(params.size(), 9 + wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(params[9 + i].name, "model.layers.0.self_attn." + wanted[i].first);
    EXPECT_EQ(params[9 + i].shape, wanted[i].second);
    EXPECT_EQ(params[9 + i].decay, 0);
  }
  EXPECT_EQ(params[1].shape, (std::vector<std::int64_t>{48, 32}));
  EXPECT_EQ(params[4].shape, (std::vector<std::int64_t>{32, 48}));
}

// Biases follow their heads; gains are on every rank, each with a part of their gradient; shared heads' biases too.
TEST(Qwen, TensorRanksHaveTheirHeads) {
  const ModelSpec spec = llama_spec({.model = small()}, {.tp = 4});
  const std::vector<ParamSpec>& params = spec.units[1].params;
  EXPECT_EQ(local_param(params[9], 1, 4).shape, (std::vector<std::int64_t>{12}));
  EXPECT_FALSE(local_param(params[9], 1, 4).partial);
  for (const std::size_t of_keys : {10, 11}) {
    EXPECT_EQ(local_param(params[of_keys], 3, 4).shape, (std::vector<std::int64_t>{12}));
    EXPECT_TRUE(local_param(params[of_keys], 3, 4).partial) << "two ranks read one head";
  }
  for (const std::size_t gain : {12, 13}) {
    EXPECT_EQ(local_param(params[gain], 2, 4).shape, (std::vector<std::int64_t>{12}));
    EXPECT_TRUE(local_param(params[gain], 2, 4).partial);
  }
}

}  // namespace
}  // namespace trireme::model::qwen_test
