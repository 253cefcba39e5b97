// config.json of each family, there and back, and what neither side can say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/convert/seeds.h"
#include "tests/formats/scratch.h"
#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/convert/hugging_face.h"

namespace trireme::convert::hugging_face_config_test {
namespace {

using config::Family;
using testing::HasSubstr;

// Keys of a config.json, "section/key" where they are nested, with a value that is refused and why.
struct Refused {
  std::string key;
  Json value;
  std::string why;
};

std::vector<Refused> refusals(Family family) {
  switch (family) {
    case Family::kGpt:
      return {{"activation_function", "relu", "has \"gelu_new\" only"},
              {"scale_attn_by_inverse_layer_idx", true, "has false only"},
              {"vocab_size", -1, "vocab_size: is -1"}};
    case Family::kLlama:
      return {{"rope_scaling", {{"type", "yarn"}}, "rope_scaling"},
              {"attention_bias", true, "has false only"},
              {"head_dim", 0, "head_dim: is 0"}};
    case Family::kVit:
      return {{"num_channels", 1, "num_channels is \"1\", this model family has 3 only"},
              {"qkv_bias", false, "has true only"},
              {"hidden_dropout_prob", 0.1, "hidden_dropout_prob is \"0.1\""},
              {"hidden_act", "relu", "hidden_act is \"relu\"; gelu,"}};
    case Family::kClip:
      return {{"text_config/hidden_act", "gelu", "hidden_act of text_config and of vision_config"},
              {"vision_config/patch_size", 0, "vision_config: patch_size: is 0"},
              {"text_config/attention_dropout", 0.1, "text_config: attention_dropout is \"0.1\""}};
    default:
      return {{"pred_num_mask_tokens", 1, "has 2 kinds of masks"},
              {"pred_mlp_ratio", 2.0, "pred_mlp_ratio is \"2.0\""},
              {"mlp_ratio", 0.0, "mlp_ratio is \"0.0\""},
              {"in_chans", 1, "in_chans is \"1\""}};
  }
}

std::vector<std::string> changed(const config::Job& before, const config::Job& after) {
  std::vector<std::string> keys;
  for (const config::Difference& key : config::diff(before, after))
    if (!key.key.starts_with("parallel.")) keys.push_back(key.key);
  return keys;
}

class HuggingFaceConfigOf : public testing::TestWithParam<Family> {};

TEST_P(HuggingFaceConfigOf, DescribesTheModel) {
  const config::Job wanted = target(GetParam(), 17, {}).job;
  const std::string text = hugging_face_config(wanted);
  const config::Job read = job_of_config(text, "config.json");
  EXPECT_THAT(changed(wanted, config::resolve(read, 1, {})), testing::IsEmpty());
  const auto refused = [&](const std::string& key, const Json& value) {
    Json json = Json::parse(text);
    json[Json::json_pointer("/" + key)] = value;
    return formats::refusal([&] { job_of_config(json.dump(), "config.json"); });
  };
  EXPECT_THAT(refused("model_type", "mamba"),
              HasSubstr("gpt2, llama, qwen2, qwen3, vit, clip, clip_vision_model, llava, "
                        "llava_next and vjepa2 can be read"));
  for (const Refused& one : refusals(GetParam()))
    EXPECT_THAT(refused(one.key, one.value), HasSubstr(one.why));
}

INSTANTIATE_TEST_SUITE_P(Families, HuggingFaceConfigOf,
                         testing::Values(Family::kGpt, Family::kLlama, Family::kVit, Family::kClip,
                                         Family::kJepa));

// What a class of theirs has one way of only.
TEST(HuggingFaceConfig, NamesTheKeyThatItCannotSay) {
  const auto refused = [](Family family, const std::string& set) {
    config::Job job = target(family, 17, {}).job;
    config::apply_set(job, set);
    return formats::refusal([&] { hugging_face_config(job); }, ErrorKind::kUsage);
  };
  EXPECT_THAT(refused(Family::kVit, "vision.pooling=mean"),
              HasSubstr("vision.pooling=mean: config.json of a ViTForImageClassification cannot "
                        "say it, which has class only"));
  EXPECT_THAT(refused(Family::kVit, "vision.positions=rotary"), HasSubstr("has learned only"));
  EXPECT_THAT(refused(Family::kClip, "contrastive.loss=siglip"),
              HasSubstr("contrastive.loss=siglip: config.json of a CLIPModel"));
  EXPECT_THAT(refused(Family::kClip, "vision.frames=2"), HasSubstr("vision.frames=2"));
  EXPECT_THAT(refused(Family::kJepa, "vision.positions=rotary"),
              HasSubstr("vision.positions=rotary: config.json of a VJEPA2Model cannot say it, "
                        "which has rotary_compat only"));
}

TEST(HuggingFaceConfig, WritesFamiliesThatHaveAClass) {
  config::Job job;
  job.model.family = Family::kProbe;
  EXPECT_THAT(formats::refusal([&] { hugging_face_config(job); }, ErrorKind::kUsage),
              HasSubstr("model.family=probe: has no model of Hugging Face's to be written as"));
}

// 48/11 of 1408 features is 6144, though not in binary fractions.
TEST(HuggingFaceConfig, WidthsSurviveTheirRatio) {
  config::Job job = target(Family::kJepa, 0, {}).job;
  for (const auto& [hidden, ffn] : {std::pair{1408, 6144}, {24, 50}, {49, 1}, {3, 1000}}) {
    job.vision.hidden = hidden;
    job.vision.ffn = ffn;
    EXPECT_EQ(job_of_config(hugging_face_config(job), "").vision.ffn, ffn);
  }
}

// Published files leave out what is the default of their class.
TEST(HuggingFaceConfig, HasDefaultsOfItsOwn) {
  const config::Job clip = job_of_config(
      R"({"model_type": "clip", "projection_dim": 768, "text_config_dict": null,
          "text_config": {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12},
          "vision_config": {"hidden_size": 1, "patch_size": 16}, "vision_config_dict":
          {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16,
           "num_hidden_layers": 24, "patch_size": 14}})",
      "config.json");
  // CLIP ViT-L/14, as published.
  EXPECT_EQ(arch::describe(config::resolve(clip, 1, {})).parameters(), 427616513);
  const config::Job vit = job_of_config(R"({"model_type": "vit", "num_labels": 1000})", "");
  EXPECT_EQ(arch::describe(config::resolve(vit, 1, {})).parameters(), 86567656) << "ViT-B/16";
  const config::Job vjepa = job_of_config(R"({"model_type": "vjepa2"})", "");
  std::int64_t teacher = 0;
  for (const arch::UnitSpec& unit : arch::describe(config::resolve(vjepa, 1, {})).units)
    if (unit.name.starts_with("teacher.")) teacher += unit.numel();
  EXPECT_EQ(teacher, 303885312) << "ViT-L/16";
}

}  // namespace
}  // namespace trireme::convert::hugging_face_config_test
