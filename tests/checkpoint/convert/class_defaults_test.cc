// What classes of Hugging Face have by default, which their files leave out: Qwen and LLaVA.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>

#include "tests/formats/scratch.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/convert/hugging_face.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/families/describe.h"

namespace trireme::convert::class_defaults_test {
namespace {

using testing::HasSubstr;

std::string refused(const std::string& text) {
  return formats::refusal([&] { job_of_config(text, "config.json"); });
}

TEST(ClassDefaults, QwenHasDefaultsOfItsOwn) {
  const char* sizes = R"("hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
      "num_attention_heads": 16, "num_key_value_heads": 8, "max_position_embeddings": 40960,
      "vocab_size": 151936, "tie_word_embeddings": true, "sliding_window": null})";
  const auto read = [&](const std::string& begin) {
    return config::resolve(job_of_config(begin + sizes, "config.json"), 1, {});
  };
  EXPECT_EQ(model::describe(read(R"({"model_type": "qwen3", )")).parameters(), 596'049'920)
      << "heads of 128 channels";
  EXPECT_EQ(read(R"({"model_type": "qwen2", )").model.head_dim, 0);
  EXPECT_EQ(read(R"({"model_type": "qwen3", "rope_theta": 1e6, )").model.rope_theta, 1e6);
  EXPECT_EQ(read(R"({"model_type": "qwen3", "rope_parameters": {"rope_type": "default",
      "rope_theta": 1e6}, )")
                .model.rope_theta,
            1e6)
      << "as transformers 5 writes it";
  for (const char* odd : {R"("rms_norm_eps": -1, )", R"("rope_theta": 0, )"})
    EXPECT_THAT(formats::refusal([&] { read(R"({"model_type": "qwen2", )" + std::string(odd)); },
                                 ErrorKind::kData),
                HasSubstr("is out of range"));
  const config::Job biased = read(R"({"model_type": "qwen3", "attention_bias": true, )");
  EXPECT_TRUE(biased.model.qkv_bias && biased.llama.output_bias) << "of all four layers";
}

TEST(ClassDefaults, PublishedLlavaIsUnderstood) {
  const std::string vision = R"("vision_config": {"hidden_size": 1024, "image_size": 336,
      "intermediate_size": 4096, "model_type": "clip_vision_model", "num_attention_heads": 16,
      "num_hidden_layers": 24, "patch_size": 14, "projection_dim": 768}})";
  const std::string text = R"({"model_type": "llava", "image_token_index": 32000,
      "projector_hidden_act": "gelu", "vision_feature_layer": -2,
      "vision_feature_select_strategy": "default", "text_config": {"max_position_embeddings": 4096,
      "model_type": "llama", "rms_norm_eps": 1e-05, "vocab_size": 32064}, )";
  const config::Job job = config::resolve(job_of_config(text + vision, ""), 1, {});
  // LLaVA 1.5 7B without the tower's last block and norm, with a newline.
  EXPECT_EQ(model::describe(job).parameters(), 7'063'427'072 - 12'596'224 - 2'048 + 4'096);
  using Tokens = std::array<std::int64_t, 2>;
  EXPECT_EQ(job.vlm.tokens, (Tokens{32000, 257})) << "no tokenizer says how a text ends";
  const auto with = [&](const char* key, const Json& value) {
    Json json = Json::parse(text + vision);
    json[Json::json_pointer(key)] = value;
    return json.dump();
  };
  EXPECT_EQ(job_of_config(with("/text_config/eos_token_id", {2, 7}), "").vlm.tokens,
            (Tokens{32000, 2}));
  EXPECT_THAT(refused(with("/image_token_index", -3)), HasSubstr("image_token_index"));
  EXPECT_THAT(refused(with("/vision_feature_layer", -1)), HasSubstr("vision_feature_layer is -1"));
  EXPECT_THAT(refused(with("/vision_feature_layer", 0)), HasSubstr("before the last, such as -2"));
  EXPECT_THAT(refused(with("/vision_feature_select_strategy", "full")),
              HasSubstr("vision_feature_select_strategy is"));
  EXPECT_THAT(refused(with("/vision_config/model_type", "dinov2")),
              HasSubstr("vision_config: model_type"));
  EXPECT_THAT(refused(with("/text_config/model_type", "mamba")),
              HasSubstr("text_config: model_type is \"mamba\""));
  EXPECT_EQ(job_of_config(with("/vision_feature_layer", 23), "").vlm.layer, 22) << "from the front";
  // LLaVA 1.6 7B on Mistral: its file says little of the decoder.
  const config::Model mistral =
      job_of_config(
          with("/text_config",
               {{"model_type", "mistral"}, {"sliding_window", nullptr}, {"vocab_size", 32064}}),
          "")
          .model;
  EXPECT_EQ(std::tuple(mistral.ffn, mistral.kv_heads, mistral.attention_layers),
            std::tuple(14336, 8, ""));
  Json next = Json::parse(with("/model_type", "llava_next"));
  next["image_grid_pinpoints"] = {{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}};
  EXPECT_EQ(job_of_config(next.dump(), "").vlm.max_tiles, 4);
  // Height first, so that the published list prefers the wide one of two tiles.
  EXPECT_EQ(job_of_config(next.dump(), "").vlm.fit, config::VlmFit::kWide);
  std::swap(next["image_grid_pinpoints"][0], next["image_grid_pinpoints"][1]);
  EXPECT_EQ(job_of_config(next.dump(), "").vlm.fit, config::VlmFit::kTall);
  EXPECT_EQ(job_of_config(next.dump(), "").vlm.fit, config::VlmFit::kTall);
  EXPECT_EQ(job.vision.pixels, "clip");
  EXPECT_EQ(job.vlm.fit, config::VlmFit::kPad);
  EXPECT_EQ(job_of_config(with("/image_aspect_ratio", "square"), "").vlm.fit,
            config::VlmFit::kTall);
  EXPECT_THAT(refused(with("/image_aspect_ratio", "anyres")),
              HasSubstr("image_aspect_ratio is \"anyres\"; pad and square can be read"));
  next["image_grid_pinpoints"].erase(4);
  EXPECT_THAT(refused(next.dump()), HasSubstr("image_grid_pinpoints"));
}

}  // namespace
}  // namespace trireme::convert::class_defaults_test
