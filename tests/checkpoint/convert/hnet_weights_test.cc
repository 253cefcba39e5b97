// H-Nets to and from the files of their reference code: config.json, names and the published vocabulary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/checkpoint/convert/seeds.h"
#include "tests/formats/scratch.h"
#include "trireme/base/error.h"
#include "trireme/base/fs.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/convert/compare.h"
#include "trireme/checkpoint/convert/hugging_face.h"
#include "trireme/checkpoint/convert/state_reader.h"
#include "trireme/checkpoint/convert/weights.h"
#include "trireme/formats/safetensors.h"

namespace trireme::convert::hnet_weights_test {
namespace {

using testing::HasSubstr;

// What the published 2-stage model of size L says of itself.
Json published() {
  return {{"arch_layout", {"m4", {"T1m4", Json::array({"T26"}), "m4T1"}, "m4"}},
          {"d_model", {1024, 1024, 1536}},
          {"d_intermediate", {0, 2816, 4096}},
          {"vocab_size", 256},
          {"ssm_cfg", {{"chunk_size", 256}, {"d_conv", 4}, {"d_state", 128}, {"expand", 2}}},
          {"attn_cfg",
           {{"num_heads", {16, 16, 16}},
            {"rotary_emb_dim", {32, 32, 48}},
            {"window_size", {1023, 1023, -1}}}},
          {"tie_embeddings", false}};
}

config::Job resolved(config::Job job) { return config::resolve(std::move(job), 1, {.vocab = 256}); }

TEST(HnetWeights, ThePublishedConfigIsThePublishedModel) {
  const config::Job job = resolved(job_of_config(published().dump(), "config.json"));
  EXPECT_EQ(job.hnet.layout, "m4,[T1m4,[T26],m4T1],m4");
  EXPECT_EQ(job.hnet.window, "1023,1023,-1");
  EXPECT_EQ(job.hnet.ratio, "3,3");
  EXPECT_EQ(job.model.seq_len, 8192);
  EXPECT_EQ(model::describe(job).parameters(), 874'315'264);
  // And back: what the reference code takes as its arguments, no key more.
  EXPECT_EQ(parse_json(hugging_face_config(job), "written"), published());
}

TEST(HnetWeights, OneRouterAimsAtSix) {
  Json json = published();
  json["arch_layout"] = {"m4", Json::array({"T22"}), "m4"};
  json["d_model"] = {1024, 1536}, json["d_intermediate"] = {0, 4000};
  json["attn_cfg"] = {
      {"num_heads", {16, 16}}, {"rotary_emb_dim", {32, 48}}, {"window_size", {1023, -1}}};
  const config::Job job = resolved(job_of_config(json.dump(), "config.json"));
  EXPECT_EQ(job.hnet.ratio, "6");
  EXPECT_EQ(job.hnet.ffn, "0,4096");  // rounded up as in the reference code
  EXPECT_EQ(model::describe(job).parameters(), 679'405'312);
}

TEST(HnetWeights, RefusesWhatIsNotBuiltHere) {
  const auto refused = [](const std::string& path, const Json& value) {
    Json json = published();
    json[Json::json_pointer(path)] = value;
    return formats::refusal([&] { job_of_config(json.dump(), "config.json"); });
  };
  EXPECT_THAT(refused("/ssm_cfg/d_state", 64),
              HasSubstr("d_state is 64, this model family has 128 only"));
  EXPECT_THAT(refused("/tie_embeddings", true), HasSubstr("has false only"));
  EXPECT_THAT(refused("/attn_cfg/rotary_emb_dim", {32, 64, 48}),
              HasSubstr("rotary_emb_dim is [32,64,48]; needs 32, half of a head, for stage 1"));
  EXPECT_THAT(refused("/arch_layout", {"m4", "T22", "m4"}), HasSubstr("arch_layout has"));
  EXPECT_THAT(refused("/d_model", {1024, 1536}),
              HasSubstr("d_model has 2 entries; arch_layout has 3 stages"));
}

config::Job small() {
  config::Job job;
  job.model = {.family = config::Family::kHnet, .vocab = 256, .seq_len = 16};
  job.hnet = {.layout = "m1T1,[t1,[M1T1],m1],t1",
              .hidden = "32,32,64",
              .heads = "2,2,4",
              .ffn = "128,0,128",
              .ratio = "3,2",
              .window = "7,-1,-1"};
  return job;
}

TEST(HnetWeights, NamesAreTheReferenceCodesAndParametersComeBack) {
  const formats::Scratch scratch;
  const Target one = target_of(small(), {});
  write_seed(one, scratch / "seed");
  EXPECT_TRUE(
      to_hugging_face(scratch / "seed/step-3", one.job, one.model, scratch / "theirs").empty());
  std::set<std::string> names;
  const formats::SafetensorsFile file(scratch / "theirs/model.safetensors");
  for (const formats::Tensor& tensor : file.tensors()) names.insert(tensor.name);
  for (const char* name :
       {"embeddings.weight", "lm_head.weight", "backbone.encoder.layers.0.mixer.conv1d.bias",
        "backbone.encoder.layers.0.mixer.dt_bias", "backbone.encoder.layers.1.mlp.fc1.weight",
        "backbone.encoder.rmsnorm.weight", "backbone.routing_module.q_proj_layer.weight",
        "backbone.residual_proj.bias", "backbone.decoder.layers.0.mixer.Wqkv.weight",
        "backbone.main_network.main_network.main_network.layers.0.mixer.in_proj.weight",
        "backbone.main_network.main_network.main_network.rmsnorm.weight",
        "backbone.main_network.main_network.pad_dimension"})
    EXPECT_TRUE(names.contains(name)) << name;
  const Path back =
      from_hugging_face(HuggingFaceWeights(scratch / "theirs"), "", "test", scratch / "back");
  const Comparison found = compare(StateReader(scratch / "seed/step-3", one.model.units),
                                   StateReader(back, one.model.units), one.model.units);
  EXPECT_EQ(found.elements_that_differ, 0);
  EXPECT_GT(found.elements, 10'000);
}

TEST(HnetWeights, RefusesToWriteWidthsThatTheReferenceRounds) {
  config::Job job = small();
  job.hnet.ffn = "128,0,100";
  EXPECT_THAT(formats::refusal([&] { hugging_face_config(resolved(job)); }, ErrorKind::kUsage),
              HasSubstr("rounds 100 of stage 2 up to 128"));
}

TEST(HnetWeights, PublishedOnesHaveABeginningAndAnEndToken) {
  const formats::Scratch scratch;
  write_file_synced(scratch / "config.json", published().dump());
  const Path directory = (scratch / "config.json").parent_path();
  const auto vocabulary = vocabulary_of_weights(directory, small());
  ASSERT_TRUE(vocabulary.has_value());
  for (const text::Tokenizer& one :
       {*vocabulary, text::Tokenizer::from_description(vocabulary->description(), "written")}) {
    EXPECT_EQ(one.encode_prompt("oar"), (std::vector<std::int32_t>{254, 'o', 'a', 'r'}));
    EXPECT_EQ(one.encode("oar"), (std::vector<std::int32_t>{'o', 'a', 'r'}));
    EXPECT_EQ(one.ends(), std::vector<std::int32_t>{255});
    EXPECT_EQ(one.digest(), text::Tokenizer::bytes().digest());
  }
  EXPECT_FALSE(vocabulary_of_weights(directory, config::Job()).has_value());
  EXPECT_THAT(formats::refusal([&] {
                text::Tokenizer::from_description(
                    R"({"format":"trireme.tokenizer","version":1,"kind":"bytes","begin":300})",
                    "x");
              }),
              HasSubstr("begin of text: token 300 is not in the vocabulary of 256"));
}

}  // namespace
}  // namespace trireme::convert::hnet_weights_test
