// Decoders as their authors publish them: what a config.json says of layers and rotary positions, parameter counts to
// the last one, and the same config.json again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/formats/scratch.h"
#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/convert/hugging_face.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/account/flops.h"
#include "trireme/model/describe.h"

namespace trireme::convert::published_decoders_test {
namespace {

using testing::HasSubstr;

// hidden, layers, ffn, heads, key-value heads, vocabulary.
using Sizes = std::array<std::int64_t, 6>;

Json config(const char* type, const Sizes& sizes, const Json& more) {
  Json json{{"model_type", type},
            {"hidden_size", sizes[0]},
            {"num_hidden_layers", sizes[1]},
            {"intermediate_size", sizes[2]},
            {"num_attention_heads", sizes[3]},
            {"num_key_value_heads", sizes[4]},
            {"vocab_size", sizes[5]},
            {"max_position_embeddings", 131072},
            {"hidden_act", "silu"},
            {"rms_norm_eps", 1e-5},
            {"rope_theta", 5e5}};
  json.update(more);
  return json;
}

Json llama3(double factor) {
  return {{"factor", factor},
          {"high_freq_factor", 4.0},
          {"low_freq_factor", 1.0},
          {"original_max_position_embeddings", 8192},
          {"rope_type", "llama3"}};
}

struct Published {
  const char* name;
  Json config;
  std::int64_t parameters;
  std::string rope{}, layers{};
  const char* written = nullptr;  // model_type of the file that is written; null: the same
};

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

nlohmann::json unordered(const Json& json) { return nlohmann::json::parse(json.dump()); }

TEST(PublishedDecoders, HaveTheirParametersAndComeBack) {
  for (const Published& model : published()) {
    SCOPED_TRACE(model.name);
    const config::Job job = config::resolve(job_of_config(model.config.dump(), model.name), 1, {});
    EXPECT_EQ(model::describe(job).parameters(), model.parameters);
    EXPECT_EQ(model::count_parameters(job.model).total, model.parameters);
    EXPECT_EQ(job.model.rope_scaling, model.rope);
    EXPECT_EQ(job.model.attention_layers, model.layers);
    const Json written = Json::parse(hugging_face_config(job));
    EXPECT_EQ(written.at("model_type"),
              model.written != nullptr ? Json(model.written) : model.config.at("model_type"));
    EXPECT_EQ(config::resolve(job_of_config(written.dump(), ""), 1, {}).model, job.model);
    if (model.rope.starts_with("llama3")) {
      EXPECT_EQ(unordered(written.at("rope_scaling")), unordered(model.config.at("rope_scaling")));
    }
  }
}

Json tiny(const char* type, const Json& more) { return config(type, {64, 4, 96, 4, 2, 128}, more); }

config::Model read(const Json& json) { return job_of_config(json.dump(), "config.json").model; }

std::string refused(const char* type, const Json& more) {
  return formats::refusal([&] { read(tiny(type, more)); });
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
              HasSubstr("partial_rotary_factor is \"0.5\", this model family has 1.0 only"));
  EXPECT_THAT(refused("llama", {{"rope_scaling", {{"type", "longrope"}}}}),
              HasSubstr("rope_scaling: type is \"longrope\"; default, linear, dynamic, llama3"));
  EXPECT_THAT(refused("llama", {{"rope_parameters", {{"full_attention", {{"rope_theta", 1e4}}}}}}),
              HasSubstr("rope_parameters: full_attention is"));
  EXPECT_THAT(refused("qwen3", {{"attention_bias", true}}),
              HasSubstr("attention_bias is \"true\""));
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
              HasSubstr("use_sliding_window is \"true\""));
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
