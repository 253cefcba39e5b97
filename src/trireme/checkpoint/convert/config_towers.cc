// ViT, CLIP, its vision tower alone, and V-JEPA 2.
#include <array>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/checkpoint/convert/config_classes.h"
#include "trireme/formats/shown.h"

namespace trireme::convert {

using config::Activation;
using config::Job;
using config::Model;
using config::Vision;
using formats::JsonFields;

namespace {

constexpr std::array kVitSizes = {
    Size<Vision>{"image_size", &Vision::image, 224},
    Size<Vision>{"patch_size", &Vision::patch, 16},
    Size<Vision>{"num_hidden_layers", &Vision::layers, 12, kMostLayers},
    Size<Vision>{"hidden_size", &Vision::hidden, 768},
    Size<Vision>{"num_attention_heads", &Vision::heads, 12},
    Size<Vision>{"intermediate_size", &Vision::ffn, 3072}};

constexpr std::array kClipVisionSizes = {
    Size<Vision>{"image_size", &Vision::image, 224},
    Size<Vision>{"patch_size", &Vision::patch, 32},
    Size<Vision>{"num_hidden_layers", &Vision::layers, 12, kMostLayers},
    Size<Vision>{"hidden_size", &Vision::hidden, 768},
    Size<Vision>{"num_attention_heads", &Vision::heads, 12},
    Size<Vision>{"intermediate_size", &Vision::ffn, 3072}};

constexpr std::array kClipTextSizes = {
    Size<Model>{"num_hidden_layers", &Model::layers, 12, kMostLayers},
    Size<Model>{"hidden_size", &Model::hidden, 512},
    Size<Model>{"num_attention_heads", &Model::heads, 8},
    Size<Model>{"intermediate_size", &Model::ffn, 2048},
    Size<Model>{"max_position_embeddings", &Model::seq_len, 77},
    Size<Model>{"vocab_size", &Model::vocab, 49408}};

constexpr std::array kVjepaSizes = {
    Size<Vision>{"crop_size", &Vision::image, 256},
    Size<Vision>{"patch_size", &Vision::patch, 16},
    Size<Vision>{"frames_per_clip", &Vision::frames, 64},
    Size<Vision>{"tubelet_size", &Vision::tubelet, 2},
    Size<Vision>{"num_hidden_layers", &Vision::layers, 24, kMostLayers},
    Size<Vision>{"hidden_size", &Vision::hidden, 1024},
    Size<Vision>{"num_attention_heads", &Vision::heads, 16}};

constexpr std::array kVjepaPredictorSizes = {
    Size<config::Jepa>{"pred_num_hidden_layers", &config::Jepa::layers, 12, kMostLayers},
    Size<config::Jepa>{"pred_hidden_size", &config::Jepa::hidden, 384},
    Size<config::Jepa>{"pred_num_attention_heads", &config::Jepa::heads, 12}};

// Of published predictors.
constexpr std::int64_t kMaskTokens = 10;
// Of a VJEPA2ForVideoClassification.
constexpr std::int64_t kPoolerLayers = 3;

// The first of several names is the one that is written.
constexpr std::array kActivations = {
    std::pair{Activation::kGelu, "gelu"}, std::pair{Activation::kGeluTanh, "gelu_pytorch_tanh"},
    std::pair{Activation::kGeluTanh, "gelu_new"}, std::pair{Activation::kQuickGelu, "quick_gelu"}};

Activation activation_of(const JsonFields& fields, const char* otherwise) {
  const std::string given = says(fields, "hidden_act") ? fields.string("hidden_act") : otherwise;
  for (const auto& [activation, called] : kActivations)
    if (given == called) return activation;
  fail(ErrorKind::kData,
       "{}: hidden_act is {}; gelu, gelu_pytorch_tanh, gelu_new and quick_gelu can be read",
       fields.where(), formats::shown(given));
}

const char* name_of(Activation activation) {
  return std::ranges::find(kActivations, activation, &std::pair<Activation, const char*>::first)
      ->second;
}

// Requires known images and clips, and towers without dropped parts.
void need_plain_tower(const JsonFields& fields, const char* channels) {
  need(fields, channels, 3);
  need(fields, "qkv_bias", true);
  for (const char* key : {"hidden_dropout_prob", "attention_probs_dropout_prob",
                          "attention_dropout", "drop_path_rate"})
    need(fields, key, 0);
}

// Images are whole patches, and heads as wide as each other.
void need_whole_patches(const JsonFields& fields, const char* image, const Vision& vision) {
  need_multiple(fields, {image, vision.image}, {"patch_size", vision.patch});
  need_multiple(fields, {"hidden_size", vision.hidden}, {"num_attention_heads", vision.heads});
}

// Times a width, rounded down, it gives another.
double ratio(std::int64_t ffn, std::int64_t hidden) {
  double ratio = static_cast<double>(ffn) / static_cast<double>(hidden);
  while (std::floor(ratio * static_cast<double>(hidden)) < static_cast<double>(ffn))
    ratio = std::nextafter(ratio, HUGE_VAL);
  return ratio;
}

std::int64_t classes_of(const JsonFields& fields) {
  const auto labels =
      static_cast<std::int64_t>(says(fields, "id2label") ? fields.object("id2label").size() : 0);
  return labels > 0 ? labels : size_or(fields, "num_labels", 2);
}

}  // namespace

void read_vit(const JsonFields& fields, Job& job) {
  need_plain_tower(fields, "num_channels");
  Vision& vision = job.vision;
  read_sizes(fields, kVitSizes, vision);
  need_whole_patches(fields, "image_size", vision);
  vision.activation = activation_of(fields, "gelu");
  vision.norm_eps = number_or(fields, "layer_norm_eps", 1e-12);
  vision.pixels = "siglip";  // as ViTImageProcessor's defaults
  vision.classes = classes_of(fields);
}

void write_vit(const Job& job, Json& json) {
  write_sizes(json, kVitSizes, job.vision);
  json.update({{"num_channels", 3},
               {"hidden_act", name_of(job.vision.activation)},
               {"layer_norm_eps", job.vision.norm_eps},
               {"num_labels", job.vision.classes},
               {"qkv_bias", true},
               {"hidden_dropout_prob", 0.0},
               {"attention_probs_dropout_prob", 0.0}});
}

void read_clip_vision(const JsonFields& fields, Job& job) {
  need_plain_tower(fields, "num_channels");
  read_sizes(fields, kClipVisionSizes, job.vision);
  need_whole_patches(fields, "image_size", job.vision);
  job.vision.activation = activation_of(fields, "quick_gelu");
  job.vision.norm_eps = number_or(fields, "layer_norm_eps", 1e-5);
  job.vision.pixels = "clip";
}

void write_clip_vision(const Job& job, Json& json) {
  write_sizes(json, kClipVisionSizes, job.vision);
  json.update({{"num_channels", 3},
               {"hidden_act", name_of(job.vision.activation)},
               {"layer_norm_eps", job.vision.norm_eps},
               {"attention_dropout", 0.0}});
}

void read_clip_classes(const JsonFields& fields, Job& job) {
  read_clip_vision(fields, job);
  job.vision.classes = classes_of(fields);
}

void write_clip_classes(const Job& job, Json& json) {
  write_clip_vision(job, json);
  json["num_labels"] = job.vision.classes;
}

void read_clip(const JsonFields& fields, Job& job) {
  const Json none = Json::object();
  // Of two places the older one counts.
  const auto tower = [&](const char* older, const char* key) {
    if (says(fields, older)) key = older;
    return JsonFields(says(fields, key) ? fields.object(key) : none,
                      fmt::format("{}: {}", fields.where(), key));
  };
  const JsonFields vision = tower("vision_config_dict", "vision_config"),
                   text = tower("text_config_dict", "text_config");
  read_clip_vision(vision, job);
  need_plain_tower(text, "num_channels");
  read_sizes(text, kClipTextSizes, job.model);
  need_multiple(text, {"hidden_size", job.model.hidden}, {"num_attention_heads", job.model.heads});
  if (activation_of(text, "quick_gelu") != job.vision.activation)
    fail(ErrorKind::kData,
         "{}: hidden_act of text_config and of vision_config differ; family clip "
         "has one for both towers",
         fields.where());
  job.model.norm_eps = number_or(text, "layer_norm_eps", 1e-5);
  job.contrastive.width = size_or(fields, "projection_dim", 512);
  job.run.micro_batch = job.run.global_batch;  // whose samples are all compared
}

void write_clip(const Job& job, Json& json) {
  Json vision{{"model_type", "clip_vision_model"}}, text{{"model_type", "clip_text_model"}};
  write_clip_vision(job, vision);
  write_sizes(text, kClipTextSizes, job.model);
  text.update({{"layer_norm_eps", job.model.norm_eps},
               {"hidden_act", name_of(job.vision.activation)},
               {"attention_dropout", 0.0}});
  for (Json* tower : {&vision, &text}) (*tower)["projection_dim"] = job.contrastive.width;
  // What ends a caption of bytes.
  if (job.data.source == config::DataSource::kScenes ||
      job.data.source == config::DataSource::kPairs)
    text["eos_token_id"] = 0;
  json.update({{"projection_dim", job.contrastive.width},
               {"vision_config", vision},
               {"text_config", text}});
}

namespace {

void read_vjepa_encoder(const JsonFields& fields, Job& job) {
  need_plain_tower(fields, "in_chans");
  for (const char* key : {"use_rope_interleave", "interpolate_rope"})
    if (says(fields, key) && fields.any(key) != false)
      fail(ErrorKind::kData,
           "{}: {} is {}, which V-JEPA 2.1 has; families jepa and probe have the rotary positions "
           "of V-JEPA 2, where it is false or absent. Convert a V-JEPA 2 model",
           fields.where(), key, formats::shown_json(fields.any(key)));
  Vision& vision = job.vision;
  read_sizes(fields, kVjepaSizes, vision);
  need_whole_patches(fields, "crop_size", vision);
  need_multiple(fields, {"frames_per_clip", vision.frames}, {"tubelet_size", vision.tubelet});
  const double ffn =
      std::floor(number_or(fields, "mlp_ratio", 4) * static_cast<double>(vision.hidden));
  if (!(ffn >= 1 && ffn <= static_cast<double>(kMostSize)))
    fail(ErrorKind::kData, "{}: mlp_ratio is {}; needs one or more features", fields.where(),
         formats::shown_json(fields.any("mlp_ratio")));
  vision.ffn = static_cast<std::int64_t>(ffn);
  vision.activation = activation_of(fields, "gelu");
  vision.norm_eps = number_or(fields, "layer_norm_eps", 1e-6);
  vision.pixels = "imagenet";
}

void write_vjepa_encoder(const Job& job, Json& json) {
  write_sizes(json, kVjepaSizes, job.vision);
  json.update({{"in_chans", 3},
               {"mlp_ratio", ratio(job.vision.ffn, job.vision.hidden)},
               {"hidden_act", name_of(job.vision.activation)},
               {"layer_norm_eps", job.vision.norm_eps},
               {"qkv_bias", true},
               {"drop_path_rate", 0.0},
               {"attention_probs_dropout_prob", 0.0}});
}

}  // namespace

void read_vjepa(const JsonFields& fields, Job& job) {
  read_vjepa_encoder(fields, job);
  need(fields, "pred_mlp_ratio", 4);
  read_sizes(fields, kVjepaPredictorSizes, job.jepa);
  need_multiple(fields, {"pred_hidden_size", job.jepa.hidden},
                {"pred_num_attention_heads", job.jepa.heads});
  // Only a model with one for each mask is written with two.
  job.jepa.mask_tokens = size_or(fields, "pred_num_mask_tokens", kMaskTokens) == 2 ? 2 : 1;
}

void write_vjepa(const Job& job, Json& json) {
  write_vjepa_encoder(job, json);
  write_sizes(json, kVjepaPredictorSizes, job.jepa);
  json.update({{"pred_mlp_ratio", 4.0}, {"pred_num_mask_tokens", written_mask_tokens(job.jepa)}});
}

void read_vjepa_probe(const JsonFields& fields, Job& job) {
  read_vjepa_encoder(fields, job);
  job.probe.layers =
      1 + (says(fields, "num_pooler_layers") ? fields.integer("num_pooler_layers", 0, kMostSize)
                                             : kPoolerLayers);
  job.probe.heads = job.vision.heads;
  job.vision.classes = classes_of(fields);
}

void write_vjepa_probe(const Job& job, Json& json) {
  write_vjepa_encoder(job, json);
  json.update({{"num_pooler_layers", job.probe.layers - 1}, {"num_labels", job.vision.classes}});
}

std::int64_t written_mask_tokens(const config::Jepa& jepa) {
  return jepa.mask_tokens == 1 ? kMaskTokens : jepa.mask_tokens;
}

}  // namespace trireme::convert
