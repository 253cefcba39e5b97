// Decoders as their authors publish them: what a config.json says of layers and rotary positions, parameter counts to
// the last one, and the same config.json again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/checkpoint/convert/published_config.h"
#include "trireme/base/error.h"

namespace trireme::convert::published_decoders_test {
namespace {

using published_classes::config;
using published_classes::expect_published;
using published_classes::Published;
using published_classes::read;
using published_classes::refused;
using published_classes::Sizes;
using published_classes::tiny;
using testing::HasSubstr;

Json llama3(double factor) {
  return {{"factor", factor},
          {"high_freq_factor", 4.0},
          {"low_freq_factor", 1.0},
          {"original_max_position_embeddings", 8192},
          {"rope_type", "llama3"}};
}

std::vector<Published> published() {
  const Json tied{{"tie_word_embeddings", true}};
  const auto tied_llama3 = [&](double factor) {
    return Json{{"tie_word_embeddings", true}, {"rope_scaling", llama3(factor)}};
  };
  return {
      {"Llama-3.2-1B", config("llama", {2048, 16, 8192, 32, 8, 128256}, tied_llama3(32)),
       1'235'814'400, "llama3 factor=32 original=8192"},
      {"Llama-3.2-3B", config("llama", {3072, 28, 8192, 24, 8, 128256}, tied_llama3(32)),
       3'212'749'824, "llama3 factor=32 original=8192"},
      {"Llama-3.1-8B",
       config("llama", {4096, 32, 14336, 32, 8, 128256}, {{"rope_scaling", llama3(8)}}),
       8'030'261'248, "llama3 factor=8 original=8192"},
      {"Llama-3.3-70B",
       config("llama", {8192, 80, 28672, 64, 8, 128256}, {{"rope_scaling", llama3(8)}}),
       70'553'706'496, "llama3 factor=8 original=8192"},
      {"Mistral-7B-v0.1",
       config("mistral", {4096, 32, 14336, 32, 8, 32000}, {{"sliding_window", 4096}}),
       7'241'732'096, "", "sliding:4096"},
      {"Mistral-7B-v0.3",
       config("mistral", {4096, 32, 14336, 32, 8, 32768}, {{"sliding_window", nullptr}}),
       7'248'023'552, "", "", "llama"},
      {"Mistral-Nemo",
       config("mistral", {5120, 40, 14336, 32, 8, 131072},
              {{"sliding_window", nullptr}, {"head_dim", 128}}),
       12'247'782'400, "", "", "llama"},
      {"Qwen2.5-0.5B",
       config("qwen2", {896, 24, 4864, 14, 2, 151936},
              {{"tie_word_embeddings", true},
               {"use_sliding_window", false},
               {"sliding_window", 32768},
               {"max_window_layers", 21}}),
       494'032'768},
      {"Qwen2.5-7B with YaRN",
       config("qwen2", {3584, 28, 18944, 28, 4, 152064},
              {{"rope_scaling",
                {{"factor", 4.0}, {"original_max_position_embeddings", 32768}, {"type", "yarn"}}}}),
       7'615'616'512, "yarn factor=4 original=32768"},
      {"Qwen2 with windows",
       config("qwen2", {896, 24, 4864, 14, 2, 151936},
              {{"tie_word_embeddings", true},
               {"use_sliding_window", true},
               {"sliding_window", 8192},
               {"max_window_layers", 21}}),
       494'032'768, "", "21xfull,3xsliding:8192"},
      {"Qwen3-0.6B", config("qwen3", {1024, 28, 3072, 16, 8, 151936}, tied), 596'049'920},
      {"Qwen3-4B", config("qwen3", {2560, 36, 9728, 32, 8, 151936}, tied), 4'022'468'096},
      {"Qwen3-8B", config("qwen3", {4096, 36, 12288, 32, 8, 151936}, Json::object()),
       8'190'735'360},
      {"SmolLM3-3B", config("smollm3", {2048, 36, 11008, 16, 4, 128256}, {{"rope_theta", 5e6}}),
       3'075'098'624, "", "3xfull,nope"}};
}

// What section `llama` of a job has.
std::vector<Published> published_relatives() {
  const auto gemma = [](const Sizes& sizes, Json more) {
    more.update({{"hidden_activation", "gelu_pytorch_tanh"},
                 {"head_dim", 256},
                 {"tie_word_embeddings", true},
                 {"rope_theta", 1e6},
                 {"rope_local_base_freq", 1e4},
                 {"query_pre_attn_scalar", 256}});
    return config("gemma3_text", sizes, more);
  };
  return {{"OLMo-2-1B", config("olmo2", {2048, 16, 8192, 16, 16, 100352}, Json::object()),
           1'484'916'736},
          {"OLMo-2-7B", config("olmo2", {4096, 32, 11008, 32, 32, 100352}, Json::object()),
           7'298'617'344},
          {"OLMo-2-32B", config("olmo2", {5120, 64, 27648, 40, 8, 100352}, Json::object()),
           32'234'279'936},
          {"OLMo-3-7B",
           config("olmo3", {4096, 32, 11008, 32, 32, 100278},
                  {{"sliding_window", 4096},
                   {"rope_scaling",
                    {{"rope_type", "yarn"},
                     {"factor", 8.0},
                     {"original_max_position_embeddings", 8192}}}}),
           7'298'011'136, "yarn factor=8 original=8192", "3xsliding:4096,full"},
          {"Gemma-3-270m", gemma({640, 18, 2048, 4, 1, 262144}, {{"sliding_window", 512}}),
           268'098'176, "", "5xsliding:512,full"},
          {"Gemma-3-1B", gemma({1152, 26, 6912, 4, 1, 262144}, {{"sliding_window", 512}}),
           999'885'952, "", "5xsliding:512,full"},
          {"Gemma-3-4B, its text",
           gemma({2560, 34, 10240, 8, 4, 262208},
                 {{"sliding_window", 1024},
                  {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}}),
           3'880'263'168, "linear factor=8", "5xsliding:1024,full"},
          {"Gemma-3-4B",
           {{"model_type", "gemma3"},
            {"text_config",
             {{"hidden_size", 2560},
              {"intermediate_size", 10240},
              {"model_type", "gemma3_text"},
              {"num_hidden_layers", 34},
              {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
              {"sliding_window", 1024}}},
            {"vision_config", {{"hidden_size", 1152}}}},
           3'880'263'168,
           "linear factor=8",
           "5xsliding:1024,full",
           "gemma3_text"},
          {"Granite-3.0-8B",
           config("granite", {4096, 40, 12800, 32, 8, 49155},
                  {{"tie_word_embeddings", true},
                   {"embedding_multiplier", 12},
                   {"residual_multiplier", 0.22},
                   {"attention_multiplier", 0.0078125},
                   {"logits_scaling", 16}}),
           8'170'848'256}};
}

std::vector<Published> published_gemma2() {
  const auto gemma = [](const Sizes& sizes, int width, int scalar) {
    return config("gemma2", sizes,
                  {{"hidden_activation", "gelu_pytorch_tanh"},
                   {"hidden_act", "gelu_pytorch_tanh"},
                   {"head_dim", width},
                   {"query_pre_attn_scalar", scalar},
                   {"attn_logit_softcapping", 50.0},
                   {"final_logit_softcapping", 30.0},
                   {"sliding_window", 4096}});
  };
  return {{"Gemma-2-2B", gemma({2304, 26, 9216, 8, 4, 256000}, 256, 256), 2'614'341'888, "",
           "sliding:4096,full"},
          {"Gemma-2-9B", gemma({3584, 42, 14336, 16, 8, 256000}, 256, 256), 9'241'705'984, "",
           "sliding:4096,full"},
          {"Gemma-2-27B", gemma({4608, 46, 36864, 32, 16, 256000}, 128, 144), 27'227'128'320, "",
           "sliding:4096,full"}};
}

TEST(PublishedDecoders, HaveTheirParametersAndComeBack) {
  expect_published(published());
  expect_published(published_relatives());
  expect_published(published_gemma2());
}

TEST(PublishedDecoders, RotaryScalingIsReadInEitherForm) {
  const auto scaling = [](const Json& more) { return read(tiny("llama", more)).rope_scaling; };
  Json parameters = llama3(8);
  parameters["rope_theta"] = 1e6;
  EXPECT_EQ(scaling({{"rope_parameters", parameters}}), "llama3 factor=8 original=8192");
  EXPECT_EQ(read(tiny("llama", {{"rope_parameters", parameters}})).rope_theta, 1e6);
  EXPECT_EQ(scaling({{"rope_scaling", nullptr}}), "");
  EXPECT_EQ(scaling({{"rope_scaling", {{"type", "mrope"}, {"mrope_section", {1, 2, 3}}}}}), "");
  EXPECT_EQ(scaling({{"rope_scaling", {{"type", "linear"}, {"factor", 8}}}}), "linear factor=8");
  EXPECT_EQ(scaling({{"max_position_embeddings", 2048},
                     {"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}}),
            "dynamic factor=2 original=2048");
  EXPECT_EQ(scaling({{"rope_scaling",
                      {{"rope_type", "yarn"},
                       {"original_max_position_embeddings", 4096},
                       {"truncate", false},
                       {"beta_fast", 16}}}}),
            "yarn factor=32 original=4096 fast=16 truncate=0")
      << "the factor is that of the two lengths";
  EXPECT_EQ(scaling({{"rope_scaling",
                      {{"rope_type", "yarn"},
                       {"factor", 40.0},
                       {"original_max_position_embeddings", 4096},
                       {"mscale", 1.0},
                       {"mscale_all_dim", 1.0}}}}),
            "yarn factor=40 original=4096 attention=1");
}

TEST(PublishedDecoders, DynamicScalingIsWrittenWithTheLengthOfPretraining) {
  config::Job job = config::resolve(
      job_of_config(tiny("llama", {{"max_position_embeddings", 2048},
                                   {"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}})
                        .dump(),
                    ""),
      1, {});
  job.model.seq_len = 8192;
  const Json written = Json::parse(hugging_face_config(job));
  EXPECT_EQ(written.at("max_position_embeddings"), 2048);
  EXPECT_EQ(read(written).rope_scaling, job.model.rope_scaling);
}

TEST(PublishedDecoders, LayersAreReadByTypeOrByRule) {
  const auto layers = [](const char* type, const Json& more) {
    return read(tiny(type, more)).attention_layers;
  };
  const Json types{"full_attention", "sliding_attention", "full_attention", "sliding_attention"};
  EXPECT_EQ(layers("mistral", Json::object()), "sliding:4096") << "the default of the class";
  EXPECT_EQ(layers("mistral", {{"layer_types", types}, {"sliding_window", 16}}), "full,sliding:16");
  EXPECT_EQ(layers("qwen3", {{"use_sliding_window", true}, {"sliding_window", 16}}), "")
      << "from layer 28 on";
  EXPECT_EQ(layers("smollm3", {{"no_rope_layers", {0, 1, 1, 1}}}), "nope,3xfull");
  EXPECT_EQ(layers("smollm3", {{"no_rope_layer_interval", 2}}), "full,nope");
}

TEST(PublishedDecoders, RefusesWhatItCannotCompute) {
  EXPECT_THAT(refused("llama", {{"partial_rotary_factor", 0.5}}),
              HasSubstr("partial_rotary_factor is 0.5, this model family has 1.0 only"));
  EXPECT_THAT(refused("llama", {{"rope_scaling", {{"type", "longrope"}}}}),
              HasSubstr("rope_scaling: type is \"longrope\"; default, linear, dynamic, llama3"));
  EXPECT_THAT(refused("llama", {{"rope_parameters", {{"full_attention", {{"rope_theta", 1e4}}}}}}),
              HasSubstr("rope_parameters: full_attention is"));
  EXPECT_THAT(refused("mistral", {{"layer_types", {"full_attention"}}}),
              HasSubstr("layer_types has 1 entries for 4 layers"));
  EXPECT_THAT(
      refused("qwen2",
              {{"layer_types",
                {"sliding_attention", "full_attention", "full_attention", "full_attention"}}}),
      HasSubstr("layer_types has \"sliding_attention\"; full_attention and"));
  EXPECT_THAT(refused("smollm3", {{"no_rope_layers", {1, 1}}}),
              HasSubstr("no_rope_layers has 2 numbers for 4 layers"));
  EXPECT_THAT(refused("smollm3", {{"use_sliding_window", true}}),
              HasSubstr("use_sliding_window is true"));
}

TEST(PublishedDecoders, RelativesAreReadAsTheirFilesSay) {
  const auto job = [](const char* type, const Json& more) {
    return job_of_config(tiny(type, more).dump(), "config.json");
  };
  const Json both{
      {"rope_parameters",
       {{"full_attention", {{"rope_type", "linear"}, {"rope_theta", 3e6}, {"factor", 8.0}}},
        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 2e4}}}}},
      {"hidden_activation", "gelu_pytorch_tanh"},
      {"sliding_window_pattern", 2},
      {"sliding_window", 32}};
  const config::Job gemma = job("gemma3_text", both);
  EXPECT_EQ(gemma.model.rope_theta, 3e6) << "as transformers 5 writes it";
  EXPECT_EQ(gemma.model.rope_scaling, "linear factor=8");
  EXPECT_EQ(gemma.llama.sliding_theta, 2e4);
  EXPECT_EQ(gemma.llama.embedding_multiplier, 8) << "sqrt(64)";
  EXPECT_EQ(gemma.model.head_dim, 256) << "the default of the class";
  EXPECT_EQ(gemma.llama.attention_multiplier, 0) << "heads are as wide as the scalar";
  const config::Job gemma2 = job("gemma2", {{"final_logit_softcapping", nullptr}});
  EXPECT_EQ(gemma2.llama.attention_cap, 50) << "the default of the class";
  EXPECT_EQ(gemma2.llama.logits_cap, 0);
  EXPECT_EQ(gemma2.model.attention_layers, "sliding:4096,full");
  EXPECT_TRUE(gemma2.model.tied);
  EXPECT_EQ(job("granite", Json::object()).llama.attention_multiplier, 1);
  const config::Job biased = job("granite", {{"attention_bias", true}, {"mlp_bias", true}});
  EXPECT_TRUE(biased.model.qkv_bias && biased.llama.output_bias && biased.llama.feed_forward_bias);
  EXPECT_EQ(job("olmo3", {{"sliding_window", 8}}).llama.sliding_theta, 0)
      << "both kinds of layers turn alike";
  EXPECT_THAT(refused("gemma3_text", {{"attn_logit_softcapping", 50.0}}),
              HasSubstr("attn_logit_softcapping is"));
  EXPECT_THAT(refused("gemma3_text", {{"hidden_activation", "gelu"}}),
              HasSubstr("hidden_activation is"));
  EXPECT_THAT(refused("olmo3", {{"layer_types", {"chunked", "x", "x", "x"}}}),
              HasSubstr("layer_types has \"chunked\""));
}

// Files of Gemma have a whole number for it.
TEST(PublishedDecoders, AMultiplierThatNoScalarSaysIsRefused) {
  config::Job job =
      config::resolve(job_of_config(tiny("gemma2", Json::object()).dump(), ""), 1, {});
  job.llama.attention_multiplier = 1 / std::sqrt(156.0);
  EXPECT_EQ(Json::parse(hugging_face_config(job))["query_pre_attn_scalar"], 156);
  job.llama.attention_multiplier = 0.08;  // 156.25
  EXPECT_THAT(formats::refusal([&] { hugging_face_config(job); }, ErrorKind::kUsage),
              HasSubstr("llama.attention_multiplier"));
}

// A pattern that no class has keys for names its key.
TEST(PublishedDecoders, PatternsThatNoClassHasAreNamed) {
  for (const char* layers : {"sliding:8,nope", "sliding:8,full", "sliding:8,sliding:16"}) {
    config::Job job = job_of_config(tiny("llama", Json::object()).dump(), "");
    job.model.attention_layers = layers;
    job = config::resolve(job, 1, {});
    EXPECT_THAT(formats::refusal([&] { hugging_face_config(job); }, ErrorKind::kUsage),
                HasSubstr(fmt::format("model.attention_layers=\"{}\": config.json of a", layers)));
  }
}

}  // namespace
}  // namespace trireme::convert::published_decoders_test
