// config.json of each family, there and back, and what neither side can say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "tests/checkpoint/convert/seeds.h"
#include "tests/formats/scratch.h"
#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/convert/hugging_face.h"

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
      return {
          {"rope_scaling", {{"type", "longrope"}}, "rope_scaling: type is \"longrope\"; default,"},
          {"rope_scaling", {{"rope_type", "linear"}}, "rope_scaling: key \"factor\" is missing"},
          {"rope_scaling",
           {{"rope_type", "linear"}, {"factor", 0.5}},
           "rope_scaling: read as model.rope_scaling=linear factor=0.5: \"factor=0.5\" is not"},
          {"attention_bias", "yes", "attention_bias"},
          {"head_dim", 0, "head_dim: is 0"}};
    case Family::kVit:
      return {{"num_channels", 1, "num_channels is 1, this model family has 3 only"},
              {"qkv_bias", false, "has true only"},
              {"hidden_dropout_prob", 0.1, "hidden_dropout_prob is 0.1"},
              {"hidden_act", "relu", "hidden_act is \"relu\"; gelu,"}};
    case Family::kClip:
      return {{"text_config/hidden_act", "gelu", "hidden_act of text_config and of vision_config"},
              {"vision_config/patch_size", 0, "vision_config: patch_size: is 0"},
              {"text_config/attention_dropout", 0.1, "text_config: attention_dropout is 0.1"}};
    case Family::kProbe:
      return {{"use_rope_interleave", true, "use_rope_interleave is true, which V-JEPA 2.1 has"},
              {"num_pooler_layers", -1, "num_pooler_layers: is -1"},
              {"num_labels", 0, "num_labels: is 0"}};
    default:
      return {{"use_rope_interleave", true, "use_rope_interleave is true, which V-JEPA 2.1 has"},
              {"interpolate_rope", true, "Convert a V-JEPA 2 model"},
              {"pred_mlp_ratio", 2.0, "pred_mlp_ratio is 2.0"},
              {"mlp_ratio", 0.0, "mlp_ratio is 0.0"},
              {"in_chans", 1, "in_chans is 1"}};
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
              HasSubstr("gpt2, llama, mistral, phi3, qwen2, qwen3, smollm3, olmo2, olmo3, "
                        "gemma2, gemma3_text, gemma3, granite, gpt_neox, vit, "));
  for (const Refused& one : refusals(GetParam()))
    EXPECT_THAT(refused(one.key, one.value), HasSubstr(one.why));
}

INSTANTIATE_TEST_SUITE_P(Families, HuggingFaceConfigOf,
                         testing::Values(Family::kGpt, Family::kLlama, Family::kVit, Family::kClip,
                                         Family::kJepa, Family::kProbe));

// Flags that say what V-JEPA 2 does are read.
TEST(HuggingFaceConfig, ReadsVjepaWithoutTheRotationsOfTheNextVersion) {
  Json json = Json::parse(hugging_face_config(target(Family::kJepa, 0, {}).job));
  json["use_rope_interleave"] = false;
  json["interpolate_rope"] = nullptr;
  EXPECT_EQ(job_of_config(json.dump(), "").model.family, Family::kJepa);
}

// Both classes have model_type vjepa2.
TEST(HuggingFaceConfig, ArchitecturesTellAProbeFromItsEncoder) {
  const auto family = [](const char* architectures) {
    return job_of_config(fmt::format(R"({{"model_type": "vjepa2"{}}})", architectures), "")
        .model.family;
  };
  EXPECT_EQ(family(""), Family::kJepa);
  EXPECT_EQ(family(R"(, "architectures": null)"), Family::kJepa);
  EXPECT_EQ(family(R"(, "architectures": ["VJEPA2Model"])"), Family::kJepa);
  EXPECT_EQ(family(R"(, "architectures": ["VJEPA2ForVideoClassification"])"), Family::kProbe);
  EXPECT_THAT(formats::refusal([&] { family(R"(, "architectures": "VJEPA2Model")"); }),
              HasSubstr("architectures"));
}

// facebook/vjepa2-vitl-fpc16-256-ssv2 by what its config.json says beyond the defaults of its class.
TEST(HuggingFaceConfig, PublishedProbesHaveTheirParameters) {
  Json labels = Json::object();
  for (int label = 0; label < 174; ++label) labels[std::to_string(label)] = "doing something";
  const Json config{{"model_type", "vjepa2"},
                    {"architectures", {"VJEPA2ForVideoClassification"}},
                    {"frames_per_clip", 16},
                    {"id2label", labels}};
  const config::Job job = config::resolve(job_of_config(config.dump(), "config.json"), 1, {});
  EXPECT_EQ(job.vision.frames, 16);
  EXPECT_EQ(model::describe(job).parameters(), 303885312 + 49514670) << "ViT-L/16 and its probe";
}

// As many tokens as published predictors have, so that whichever is read is the trained one.
TEST(HuggingFaceConfig, OneMaskTokenIsWrittenAsTen) {
  config::Job job = target(Family::kJepa, 0, {}).job;
  const auto written = [&] {
    return Json::parse(hugging_face_config(job))["pred_num_mask_tokens"].get<int>();
  };
  EXPECT_EQ(written(), 10);
  job.jepa.mask_tokens = 2;
  EXPECT_EQ(written(), 2);
  EXPECT_EQ(job_of_config(hugging_face_config(job), "").jepa.mask_tokens, 2);
}

using Counts =
    std::array<std::int64_t, 2>;  // of names that begin with one prefix, and with another

Counts listed(config::Job job, const char* one, const char* other) {
  job = config::resolve(job, 1, {});
  Counts counts{};
  for (const formats::TensorInfo& tensor : hugging_face_tensors(job, model::describe(job))) {
    std::int64_t elements = 1;
    for (const std::int64_t size : tensor.shape) elements *= size;
    for (const auto& [prefix, place] : {std::pair{one, 0}, {other, 1}})
      if (tensor.name.starts_with(prefix)) counts[place] += elements;
  }
  return counts;
}

// What is written of models of published sizes has the elements of the published files.
TEST(HuggingFaceConfig, PublishedSizesHaveTheirElements) {
  struct Size {
    std::int64_t hidden, layers, heads, ffn;
    Counts pretrained;  // encoder, predictor with ten mask tokens
    std::int64_t probe;
  };
  for (const Size& size : {Size{1024, 24, 16, 4096, {303885312, 22086016}, 49514670},
                           {1280, 32, 16, 5120, {631648000, 22282880}, 77294254},
                           {1408, 40, 22, 6144, {1012173952, 22381312}, 93494190}}) {
    config::Job job;
    job.model.family = Family::kJepa;
    job.data.source = config::DataSource::kSquares;
    job.vision = {.image = 256,
                  .patch = 16,
                  .frames = 16,
                  .tubelet = 2,
                  .layers = size.layers,
                  .hidden = size.hidden,
                  .heads = size.heads,
                  .ffn = size.ffn,
                  .positions = config::Positions::kRotaryCompat};
    EXPECT_EQ(listed(job, "encoder.", "predictor."), size.pretrained);
    job.model.family = Family::kProbe;
    job.vision.classes = 174;
    job.probe.heads = size.heads;
    const Counts probe = listed(job, "vjepa2.encoder.", "pooler.");
    EXPECT_EQ(probe[0], size.pretrained[0]);
    EXPECT_EQ(probe[1] + 174 * (size.hidden + 1), size.probe);
  }
}

// What a class of theirs has one way of only.
TEST(HuggingFaceConfig, NamesTheKeyThatItCannotSay) {
  const auto refused = [](Family family, const std::string& set) {
    config::Job job = target(family, 17, {}).job;
    config::apply_set(job, set);
    return formats::refusal([&] { hugging_face_config(job); }, ErrorKind::kUsage);
  };
  EXPECT_THAT(refused(Family::kVit, "vision.position_grid=4"),
              HasSubstr("vision.position_grid=4: config.json of a ViTForImageClassification cannot "
                        "describe this; it can have 0 only"));
  EXPECT_THAT(refused(Family::kVit, "vision.positions=rotary"), HasSubstr("can have learned only"));
  EXPECT_THAT(refused(Family::kClip, "contrastive.loss=siglip"),
              HasSubstr("contrastive.loss=siglip: config.json of a CLIPModel"));
  EXPECT_THAT(refused(Family::kClip, "vision.frames=2"), HasSubstr("vision.frames=2"));
  EXPECT_THAT(refused(Family::kJepa, "vision.positions=rotary"),
              HasSubstr("vision.positions=rotary: config.json of a VJEPA2Model cannot describe "
                        "this; it can have rotary_compat only"));
  EXPECT_THAT(refused(Family::kProbe, "probe.heads=2"),
              HasSubstr("probe.heads=2: config.json of a VJEPA2ForVideoClassification cannot "
                        "describe this; it can have 4 only"));
  EXPECT_THAT(refused(Family::kProbe, "probe.lr=1,2"), HasSubstr("probe.lr=\"1,2\": config.json"));
}

TEST(HuggingFaceConfig, WritesFamiliesThatHaveAClass) {
  config::Job job;
  job.model.family = Family::kHvjepa;
  EXPECT_THAT(formats::refusal([&] { hugging_face_config(job); }, ErrorKind::kUsage),
              HasSubstr("model.family=hvjepa: has no model of Hugging Face's to be written as"));
}

// 48/11 of 1408 features is 6144, though not in binary fractions.
TEST(HuggingFaceConfig, WidthsSurviveTheirRatio) {
  config::Job job = target(Family::kJepa, 0, {}).job;
  job.vision.heads = 1;
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
  EXPECT_EQ(model::describe(config::resolve(clip, 1, {})).parameters(), 427616513);
  const config::Job vit = job_of_config(R"({"model_type": "vit", "num_labels": 1000})", "");
  EXPECT_EQ(model::describe(config::resolve(vit, 1, {})).parameters(), 86567656) << "ViT-B/16";
  const config::Job vjepa = job_of_config(R"({"model_type": "vjepa2"})", "");
  std::int64_t teacher = 0;
  for (const model::UnitSpec& unit : model::describe(config::resolve(vjepa, 1, {})).units)
    if (unit.name.starts_with("teacher.")) teacher += unit.numel();
  EXPECT_EQ(teacher, 303885312) << "ViT-L/16";
}

}  // namespace
}  // namespace trireme::convert::hugging_face_config_test
