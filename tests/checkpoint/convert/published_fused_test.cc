// Published decoders with fused layers: Phi-3 and GPT-NeoX.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/checkpoint/convert/published_config.h"
#include "trireme/base/error.h"

namespace trireme::convert::published_fused_test {
namespace {

using published_classes::config;
using published_classes::expect_published;
using published_classes::Published;
using published_classes::read;
using published_classes::refused;
using published_classes::tiny;
using published_classes::unordered;
using testing::HasSubstr;

// Lists of a file of Phi-3, and what a job says of them: 131072 tokens are 32 times those of pretraining.
Json factors(int count) {
  Json brief = Json::array(), longer = Json::array();
  for (int i = 0; i < count; ++i) brief.push_back(1 + i / 64.0), longer.push_back(1 + i);
  return {{"type", "longrope"}, {"short_factor", brief}, {"long_factor", longer}};
}
std::string long_rope(int count) {
  std::string brief, longer;
  for (int i = 0; i < count; ++i) {
    brief += fmt::format("{}{}", i == 0 ? "" : ",", 1 + i / 64.0);
    longer += fmt::format("{}{}", i == 0 ? "" : ",", 1 + i);
  }
  return fmt::format("longrope factor=32 original=4096 short={} long={}", brief, longer);
}

std::vector<Published> published_fused() {
  const Json pythia{{"hidden_act", "gelu"},
                    {"rotary_pct", 0.25},
                    {"rotary_emb_base", 10000},
                    {"use_parallel_residual", true}};
  return {{"Phi-3-mini-4k",
           config("phi3", {3072, 32, 8192, 32, 32, 32064},
                  {{"sliding_window", 2047}, {"embd_pdrop", 0.0}, {"rope_scaling", nullptr}}),
           3'821'079'552, "", "sliding:2047", "mistral"},
          {"Phi-4",
           config("phi3", {5120, 40, 17920, 40, 10, 100352},
                  {{"sliding_window", nullptr}, {"rope_theta", 250000}}),
           14'659'507'200, "", "", "llama"},
          {"Phi-3-mini-128k",
           config("phi3", {3072, 32, 8192, 32, 32, 32064},
                  {{"sliding_window", 262144}, {"rope_scaling", factors(48)}, {"rope_theta", 1e4}}),
           3'821'079'552, long_rope(48), "sliding:262144"},
          {"Phi-4-mini",
           config("phi3", {3072, 32, 8192, 24, 8, 200064},
                  {{"tie_word_embeddings", true},
                   {"sliding_window", 262144},
                   {"partial_rotary_factor", 0.75},
                   {"rope_scaling", factors(48)},
                   {"original_max_position_embeddings", 4096}}),
           3'836'021'760, long_rope(48), "sliding:262144"},
          {"Pythia-70m", config("gpt_neox", {512, 6, 2048, 8, 8, 50304}, pythia), 70'426'624},
          {"Pythia-160m", config("gpt_neox", {768, 12, 3072, 12, 12, 50304}, pythia), 162'322'944},
          {"GPT-NeoX-20B",
           config("gpt_neox", {6144, 44, 24576, 64, 64, 50432},
                  {{"hidden_act", "gelu_fast"}, {"rotary_emb_base", 10000}}),
           20'554'567'680}};
}

TEST(PublishedFused, HaveTheirParametersAndComeBack) { expect_published(published_fused()); }

TEST(PublishedFused, NeoxIsReadAsItsFilesSay) {
  const auto neox = [](const Json& more) {
    Json json{{"hidden_act", "gelu"}};
    json.update(more);
    return job_of_config(tiny("gpt_neox", json).dump(), "config.json");
  };
  EXPECT_EQ(neox(Json::object()).neox, config::Neox()) << "what its class has by default";
  const config::Job other = neox({{"use_parallel_residual", false},
                                  {"hidden_act", "gelu_new"},
                                  {"rotary_pct", 1.0},
                                  {"rotary_emb_base", 20000}});
  EXPECT_FALSE(other.neox.parallel_residual);
  EXPECT_EQ(other.neox.activation, config::Activation::kGeluTanh);
  EXPECT_EQ(other.neox.rotary_fraction, 1);
  EXPECT_EQ(other.model.rope_theta, 20000);
  const config::Job next =
      neox({{"rope_parameters",
             {{"rope_type", "default"}, {"rope_theta", 5000.0}, {"partial_rotary_factor", 0.5}}}});
  EXPECT_EQ(next.neox.rotary_fraction, 0.5) << "as transformers 5 writes it";
  EXPECT_EQ(next.model.rope_theta, 5000);
  EXPECT_THAT(refused("gpt_neox", {{"hidden_act", "relu"}}),
              HasSubstr("hidden_act is \"relu\"; family neox has gelu and gelu_new"));
  EXPECT_THAT(refused("gpt_neox", {{"hidden_act", "gelu"}, {"attention_bias", false}}),
              HasSubstr("attention_bias is false"));
  EXPECT_THAT(refused("gpt_neox", {{"hidden_act", "gelu"}, {"rope_scaling", {{"type", "linear"}}}}),
              HasSubstr("rope_scaling is"));
}

TEST(PublishedFused, PhiIsReadInEitherForm) {
  const auto scaling = [](const Json& more) { return read(tiny("phi3", more)).rope_scaling; };
  const std::string text = long_rope(8);
  for (const char* type : {"longrope", "su", "yarn"}) {
    Json lists = factors(8);
    lists["type"] = type;
    EXPECT_EQ(scaling({{"rope_scaling", lists}}), text) << type;
  }
  Json parameters = factors(8);
  parameters.erase("type");
  parameters.update({{"rope_type", "longrope"},
                     {"rope_theta", 2e4},
                     {"partial_rotary_factor", 1.0},
                     {"original_max_position_embeddings", 4096}});
  EXPECT_EQ(scaling({{"rope_parameters", parameters}}), text) << "as transformers 5 writes it";
  EXPECT_EQ(read(tiny("phi3", {{"rope_parameters", parameters}})).rope_theta, 2e4);
  EXPECT_THAT(refused("phi3", {{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}}),
              HasSubstr("type is \"linear\"; default and longrope can be read"));
}

// Whatever the length of a run, the file has that of the model.
TEST(PublishedFused, LongRopeIsWrittenWithTheLengthsOfTheModel) {
  config::Job job = config::resolve(
      job_of_config(tiny("phi3", {{"rope_scaling", factors(8)}}).dump(), ""), 1, {});
  job.model.seq_len = 1024;
  const Json written = Json::parse(hugging_face_config(job));
  EXPECT_EQ(written.at("model_type"), "phi3");
  EXPECT_EQ(written.at("max_position_embeddings"), 131072);
  EXPECT_EQ(written.at("original_max_position_embeddings"), 4096);
  EXPECT_EQ(unordered(written.at("rope_scaling")), unordered(factors(8)));
  job.model.qkv_bias = true;
  EXPECT_THAT(formats::refusal([&] { hugging_face_config(job); }, ErrorKind::kUsage),
              HasSubstr("model.qkv_bias=true: config.json of a Phi3ForCausalLM cannot describe"));
}

}  // namespace
}  // namespace trireme::convert::published_fused_test
