// Sizes, names and programs of the language models; counts are those of the published models, FLOPs what the named programs print.
#include <gtest/gtest.h>

#include <set>

#include "trireme/families/gpt/model.h"
#include "trireme/families/llama/model.h"
#include "trireme/model/account/flops.h"

namespace trireme::model::language_model_test {
namespace {

using config::Family;
using config::Model;

Model gpt2(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
           std::int64_t vocab = 50257) {
  return {.family = Family::kGpt,
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = heads,
          .ffn = 4 * hidden,
          .vocab = vocab,
          .seq_len = 1024,
          .tied = true};
}
Model llama(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t kv_heads,
            std::int64_t ffn, std::int64_t vocab, std::int64_t seq_len = 4096) {
  return {.family = Family::kLlama,
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = kv_heads,
          .ffn = ffn,
          .vocab = vocab,
          .seq_len = seq_len,
          .tied = false};
}
Model llama3_8b() { return llama(32, 4096, 32, 8, 14336, 128256, 8192); }

ModelSpec spec(const Model& model, std::int64_t micro_batch = 1, DType compute = DType::kBF16) {
  const PerRank rank{.micro_batch = micro_batch, .compute = compute};
  return model.family == Family::kGpt ? gpt_spec(model, rank) : llama_spec({.model = model}, rank);
}

TEST(LanguageModel, ParameterCountsOfPublishedModels) {
  const std::vector<std::pair<Model, std::int64_t>> published = {
      {gpt2(12, 768, 12), 124'439'808},
      {gpt2(24, 1024, 16), 354'823'168},
      {gpt2(36, 1280, 20), 774'030'080},
      {gpt2(48, 1600, 25), 1'557'611'200},
      {gpt2(12, 768, 12, 50304), 124'475'904},
      {llama(32, 4096, 32, 32, 11008, 32000), 6'738'415'616},
      {llama(40, 5120, 40, 40, 13824, 32000), 13'015'864'320},
      {llama3_8b(), 8'030'261'248},
      {llama(22, 2048, 32, 4, 5632, 32000, 2048), 1'100'048'384},
      // Those of the specification's tiny configurations.
      {llama(6, 192, 6, 2, 512, 256, 128), 2'460'096},
      {llama(4, 128, 4, 2, 384, 256, 128), 853'120}};
  for (const auto& [model, parameters] : published) EXPECT_EQ(spec(model).parameters(), parameters);
}

// Three blocks of width 32: of GPT-2 with a feed-forward part of 100, of Llama with one of 88 and two key-value heads of 8.
TEST(LanguageModel, CountsAreSumsByRole) {
  Model gpt = gpt2(3, 32, 4, 77), grouped = llama(3, 32, 4, 2, 88, 77, 16);
  gpt.ffn = 100;
  constexpr std::int64_t kTable = 77 * 32;
  const Training adapters({}, {.rank = 4});
  for (const bool tied : {false, true}) {
    gpt.tied = grouped.tied = tied;
    const ParameterCount of_gpt = count_parameters(spec(gpt));
    EXPECT_EQ(of_gpt.embedding, kTable);
    EXPECT_EQ(of_gpt.positions, 1024 * 32);
    EXPECT_EQ(of_gpt.products, 3 * (4 * 32 * 32 + 2 * 32 * 100) + kTable);
    EXPECT_EQ(of_gpt.total, of_gpt.products + (tied ? 0 : kTable) + 1024 * 32 +
                                3 * (4 * 32 + 3 * 32 + 32 + 100 + 32) + 2 * 32);
    for (const ModelSpec& described :
         {spec(grouped), llama_spec({.model = grouped}, {}, adapters)}) {
      const ParameterCount count = count_parameters(described);
      EXPECT_EQ(count.embedding, kTable);
      EXPECT_EQ(count.positions, 0);
      EXPECT_EQ(count.products, 3 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 88) + kTable);
      EXPECT_EQ(count.total, count.products + (tied ? 0 : kTable) + 3 * 2 * 32 + 32);
    }
  }
}

TEST(LanguageModel, FlopsPerTokenByEveryConvention) {
  const Model model = llama3_8b();
  EXPECT_EQ(flops_per_token(spec(model), model, FlopsConvention::kMegatron), 51'470'401'536.0);
  EXPECT_EQ(flops_per_token(spec(model), model, FlopsConvention::kLlmC), 54'624'018'432.0);
  EXPECT_EQ(flops_per_token(spec(model), model, FlopsConvention::kTorchtitan), 57'914'449'920.0);
  EXPECT_EQ(flops_per_token(spec(model), model, FlopsConvention::kNanoGpt), 61'066'469'376.0);
}

TEST(LanguageModel, MegatronsFlopsPerBatch) {
  const auto batch = [](const Model& model, double samples) {
    return samples * static_cast<double>(model.seq_len) *
           flops_per_token(spec(model), model, FlopsConvention::kMegatron);
  };
  EXPECT_EQ(batch(llama(4, 512, 8, 8, 2048, 32000, 1024), 8), 1'733'019'303'936.0);
  Model gpt3 = gpt2(96, 12288, 96, 51200);
  gpt3.seq_len = 2048;
  EXPECT_EQ(batch(gpt3, 1), 2'174'868'359'479'296.0);
  EXPECT_EQ(batch(gpt2(12, 768, 12, 50304), 1), 817'184'636'928.0);
}

// Megatron counts attention as the program does, and a node's backward is twice its forward.
TEST(LanguageModel, NodesAddUpToMegatronsFlops) {
  for (const Model& model : {gpt2(12, 768, 12), llama3_8b()}) {
    double forward = 0;
    for (const plan::Node& node : spec(model, 4).program.nodes) forward += node.flops;
    const double tokens = 4 * static_cast<double>(model.seq_len);
    EXPECT_DOUBLE_EQ(3 * forward,
                     tokens * flops_per_token(spec(model), model, FlopsConvention::kMegatron));
  }
}

TEST(LanguageModel, ProgramsAreChainsThatTrainEveryUnit) {
  for (bool tied : {false, true})
    for (Model model : {gpt2(3, 64, 4, 100), llama(3, 64, 4, 2, 256, 100, 32)}) {
      model.tied = tied;
      const ModelSpec described = spec(model, 2, DType::kF32);
      const plan::Program& program = described.program;
      plan::check_program(program);
      ASSERT_EQ(program.nodes.size(), 5u);
      ASSERT_EQ(program.units.size(), described.units.size());
      ASSERT_EQ(described.node_params.size(), program.nodes.size());
      for (std::size_t u = 0; u < program.units.size(); ++u) {
        EXPECT_EQ(program.units[u].name, described.units[u].name);
        EXPECT_EQ(program.units[u].numel, described.units[u].numel());
      }
      for (bool backward : plan::gradient_flow(program).node_has_backward) EXPECT_TRUE(backward);
      EXPECT_TRUE(program.nodes.back().loss);
      EXPECT_EQ(program.nodes.back().units,
                tied ? (std::vector<plan::UnitId>{4, 0}) : (std::vector<plan::UnitId>{4}));
      const ParamRef weight = described.node_params.back().back();
      EXPECT_EQ(weight.unit, tied ? 0 : 4);
      EXPECT_EQ(described.units[weight.unit].params[weight.param].shape,
                (std::vector<std::int64_t>{100, 64}));
      EXPECT_EQ(program.values[program.nodes[1].reads[0]].bytes, 2 * model.seq_len * 64 * 4);
    }
}

TEST(LanguageModel, NamesAreHuggingFacesAndUnique) {
  std::set<std::string> names;
  const auto collect = [&](const ModelSpec& described) {
    for (const UnitSpec& unit : described.units)
      for (const ParamSpec& param : unit.params)
        EXPECT_TRUE(names.insert(param.name).second) << param.name;
  };
  collect(spec(gpt2(2, 64, 4, 100)));
  collect(spec(llama(2, 64, 4, 2, 256, 100, 32)));
  for (const char* name :
       {"transformer.wte.weight", "transformer.wpe.weight", "transformer.h.1.attn.c_attn.bias",
        "transformer.h.0.mlp.c_proj.weight", "transformer.ln_f.bias", "model.embed_tokens.weight",
        "model.layers.1.self_attn.k_proj.weight", "model.layers.0.mlp.gate_proj.weight",
        "model.layers.1.post_attention_layernorm.weight", "model.norm.weight", "lm_head.weight"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(LanguageModel, OnlyMatricesDecay) {
  for (const Model& model : {gpt2(2, 64, 4, 100), llama(2, 64, 4, 2, 256, 100, 32)})
    for (const UnitSpec& unit : spec(model).units)
      for (const ParamSpec& param : unit.params)
        EXPECT_EQ(param.decay, param.shape.size() > 1) << param.name;
}

}  // namespace
}  // namespace trireme::model::language_model_test
