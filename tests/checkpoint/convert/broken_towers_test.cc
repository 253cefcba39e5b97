// Published models that see, with a broken config.json or preprocessor_config.json.
#include "tests/checkpoint/convert/broken.h"
#include "tests/checkpoint/convert/seeing_jobs.h"

namespace trireme::convert::broken_towers_test {
namespace {

constexpr const char *kPixels = "preprocessor_config.json",
                     *kVideo = "video_preprocessor_config.json";

Files seeing(const std::string& type) {
  if (type == "llava") return published(llava(0, false));
  if (type == "siglip_vision_model") return published(siglip_tower(config::Pooling::kAttention));
  if (type == "siglip") return published(siglip_tower(config::Pooling::kMean));
  if (type == "vjepa2") return published(with_tower(config::Family::kJepa));
  return published(with_tower(type == "vit" ? config::Family::kVit : config::Family::kClip));
}

Damage in_config(const char* at, const Json& value) { return set(kConfig, at, value); }

TEST(BrokenTowers, VitAndClip) {
  const Broken cases[] = {
      {"uneven patches",
       "vit",
       in_config("/patch_size", 3),
       {kConfig, "image_size", "8", "patch_size", "3"}},
      {"uneven heads",
       "vit",
       in_config("/num_attention_heads", 5),
       {kConfig, "hidden_size", "24", "num_attention_heads", "5"}},
      {"grey images", "vit", in_config("/num_channels", 1), {kConfig, "num_channels", "1", "3"}},
      {"activation",
       "vit",
       in_config("/hidden_act", "relu"),
       {kConfig, "hidden_act", "relu", "gelu"}},
      {"no class", "vit", in_config("/num_labels", 0), {kConfig, "num_labels", "0"}},
      {"classes are a list",
       "vit",
       in_config("/id2label", {"a"}),
       {kConfig, "id2label", "an object"}},
      {"image of other size",
       "vit",
       in_config("/image_size", 16),
       {kModel, "vit.embeddings.position_embeddings", "[1, 17, 24]", "[1, 65, 24]"}},
      {"tower is a list",
       "clip",
       in_config("/vision_config", Json::array()),
       {kConfig, "vision_config"}},
      {"two activations",
       "clip",
       in_config("/text_config/hidden_act", "gelu"),
       {kConfig, "hidden_act", "text_config"}},
      {"text's heads",
       "clip",
       in_config("/text_config/num_attention_heads", 5),
       {kConfig, "text_config", "hidden_size", "12", "num_attention_heads", "5"}},
      {"no projection",
       "clip",
       in_config("/projection_dim", 0),
       {kConfig, "projection_dim", "is 0"}},
      {"pixels are not divided",
       "vit",
       put(kPixels, R"({"do_rescale": false})"),
       {kPixels, "do_rescale", "false"}},
      {"mean of two colours",
       "vit",
       put(kPixels, R"({"image_mean": [0.5, 0.5]})"),
       {kPixels, "image_mean", "three numbers"}},
      {"deviation is zero",
       "clip",
       put(kPixels, R"({"image_std": [0, 0, 0]})"),
       {kPixels, "image_std", "above 0"}},
      {"pixels are no JSON", "vit", put(kPixels, "{"), {kPixels, "not valid JSON"}},
  };
  expect_refusals(cases, seeing);
}

TEST(BrokenTowers, Siglip) {
  const Broken cases[] = {
      {"stacked rows",
       "siglip_vision_model",
       header(kModel,
              [](Json& json) {
                json["vision_model.head.attention.in_proj_weight"]["shape"] = {48, 36};
              }),
       {kModel, "vision_model.head.attention.in_proj_weight", "[48, 36]", "[72, 24]"}},
      {"head that is not said",
       "siglip_vision_model",
       in_config("/vision_use_head", false),
       {kModel, "vision_model.head."}},
      {"head is text",
       "siglip_vision_model",
       in_config("/vision_use_head", "yes"),
       {kConfig, "vision_use_head"}},
      {"class",
       "siglip",
       in_config("/architectures", {"SiglipTextModel"}),
       {kConfig, "architectures", "SiglipTextModel", "SiglipForImageClassification"}},
      {"no tower", "siglip", remove(kConfig, "vision_config"), {kConfig, "vision_config"}},
  };
  expect_refusals(cases, seeing);
}

TEST(BrokenTowers, Llava) {
  const Broken cases[] = {
      {"decoder",
       "llava",
       in_config("/text_config/model_type", "bloom"),
       {kConfig, "text_config", "model_type", "bloom"}},
      {"decoder of another family",
       "llava",
       in_config("/text_config/model_type", "gemma3_text"),
       {kConfig, "text_config", "model_type"}},
      {"decoder's key-value heads",
       "llava",
       in_config("/text_config/num_key_value_heads", 4),
       {kConfig, "text_config", "num_key_value_heads", "4"}},
      {"tower of another class",
       "llava",
       in_config("/vision_config/model_type", "dinov2"),
       {kConfig, "vision_config", "model_type", "dinov2", "clip_vision_model"}},
      {"tower without a class token",
       "llava",
       in_config("/vision_config/model_type", "siglip_vision_model"),
       {kConfig, "vision_feature_select_strategy", "default", "full"}},
      {"layer that is not there",
       "llava",
       in_config("/vision_feature_layer", -9),
       {kConfig, "vision_feature_layer", "-9"}},
      {"layers in a list",
       "llava",
       in_config("/vision_feature_layer", {-2, -1}),
       {kConfig, "vision_feature_layer", "[-2,-1]"}},
      {"projector",
       "llava",
       in_config("/projector_hidden_act", "relu"),
       {kConfig, "projector_hidden_act", "relu", "gelu"}},
      {"aspect ratio",
       "llava",
       in_config("/image_aspect_ratio", "anyres"),
       {kConfig, "image_aspect_ratio", "anyres", "pad"}},
      {"text is text",
       "llava",
       in_config("/text_config", "llama"),
       {kConfig, "text_config", "llama"}},
  };
  expect_refusals(cases, seeing);
}

TEST(BrokenTowers, Vjepa) {
  const Broken cases[] = {
      {"frames without a tube",
       "vjepa2",
       in_config("/tubelet_size", 3),
       {kConfig, "frames_per_clip", "4", "tubelet_size", "3"}},
      {"predictor's heads",
       "vjepa2",
       in_config("/pred_num_attention_heads", 5),
       {kConfig, "pred_hidden_size", "12", "pred_num_attention_heads", "5"}},
      {"clip's pixels",
       "vjepa2",
       put(kVideo, R"({"do_normalize": false})"),
       {kVideo, "do_normalize", "false"}},
      {"mlp ratio is text",
       "vjepa2",
       in_config("/mlp_ratio", "4"),
       {kConfig, "mlp_ratio", "\"4\""}},
      {"mlp ratio is negative",
       "vjepa2",
       in_config("/mlp_ratio", -4.0),
       {kConfig, "mlp_ratio", "-4"}},
      {"mlp ratio is huge",
       "vjepa2",
       in_config("/mlp_ratio", 1e300),
       {kConfig, "mlp_ratio", "1e+300"}},
  };
  expect_refusals(cases, seeing);
}

}  // namespace
}  // namespace trireme::convert::broken_towers_test
