// Files of ViTForImageClassification, CLIPVisionModel, SiglipVisionModel and SiglipForImageClassification.
#include "trireme/families/vit/hugging_face.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/checkpoint/convert/families.h"
#include "trireme/formats/shown.h"

namespace trireme::convert {

using config::Activation;
using config::DataSource;
using config::Job;
using config::Pooling;
using config::Vision;
using formats::JsonFields;

namespace {

// Of the base models, by their patches.
constexpr auto sizes_with(std::int64_t patch) {
  return std::array{Size<Vision>{"image_size", &Vision::image, 224},
                    Size<Vision>{"patch_size", &Vision::patch, patch},
                    Size<Vision>{"num_hidden_layers", &Vision::layers, 12, kMostLayers},
                    Size<Vision>{"hidden_size", &Vision::hidden, 768},
                    Size<Vision>{"num_attention_heads", &Vision::heads, 12},
                    Size<Vision>{"intermediate_size", &Vision::ffn, 3072}};
}
constexpr auto kVitSizes = sizes_with(16), kSiglipVisionSizes = kVitSizes;
constexpr auto kClipVisionSizes = sizes_with(32);

// The first of several names is the one that is written.
constexpr std::array kActivations = {
    std::pair{Activation::kGelu, "gelu"}, std::pair{Activation::kGeluTanh, "gelu_pytorch_tanh"},
    std::pair{Activation::kGeluTanh, "gelu_new"}, std::pair{Activation::kQuickGelu, "quick_gelu"}};

}  // namespace

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

void need_plain_tower(const JsonFields& fields, const char* channels) {
  need(fields, channels, 3);
  need(fields, "qkv_bias", true);
  for (const char* key : {"hidden_dropout_prob", "attention_probs_dropout_prob",
                          "attention_dropout", "drop_path_rate"})
    need(fields, key, 0);
}

void need_whole_patches(const JsonFields& fields, const char* image, const Vision& vision) {
  need_multiple(fields, {image, vision.image}, {"patch_size", vision.patch});
  need_multiple(fields, {"hidden_size", vision.hidden}, {"num_attention_heads", vision.heads});
}

std::int64_t classes_of(const JsonFields& fields) {
  const auto labels =
      static_cast<std::int64_t>(says(fields, "id2label") ? fields.object("id2label").size() : 0);
  return labels > 0 ? labels : size_or(fields, "num_labels", 2);
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

void images_by_class_token(Job& job) {
  job.vision.frames = job.vision.tubelet = 1;
  job.vision.positions = config::Positions::kLearned;
  job.vision.position_grid = 0;
  job.vision.pooling = Pooling::kClass;
}

// CLIP's tower, followed by the classes of family vit.
void as_clip_vision(Job& job) {
  images_by_class_token(job);
  job.vision.pre_norm = true;
}

// SigLIP's convolution drops the pixels after the last whole patch.
void read_siglip_vision(const JsonFields& fields, Job& job) {
  need_plain_tower(fields, "num_channels");
  Vision& vision = job.vision;
  read_sizes(fields, kSiglipVisionSizes, vision);
  vision.image = std::max<std::int64_t>(1, vision.image / vision.patch) * vision.patch;
  need_multiple(fields, {"hidden_size", vision.hidden}, {"num_attention_heads", vision.heads});
  job.vision.activation = activation_of(fields, "gelu_pytorch_tanh");
  job.vision.norm_eps = number_or(fields, "layer_norm_eps", 1e-6);
  job.vision.pixels = "siglip";
}

void write_siglip_vision(const Job& job, Json& json) {
  write_clip_vision(job, json);
  json["vision_use_head"] = job.vision.pooling == Pooling::kAttention;
}

void as_siglip_vision(Job& job) {
  images_by_class_token(job);
  job.vision.pre_norm = false;
  job.vision.pooling = Pooling::kMean;
}

namespace {

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

void read_clip_classes(const JsonFields& fields, Job& job) {
  read_clip_vision(fields, job);
  job.vision.classes = classes_of(fields);
}

void write_clip_classes(const Job& job, Json& json) {
  write_clip_vision(job, json);
  json["num_labels"] = job.vision.classes;
}

// The tower in a file of its own, or with that of texts; its head, if it has one, pools by attention.
void read_siglip_pool(const JsonFields& fields, Job& job) {
  read_siglip_vision(fields, job);
  const bool head = !says(fields, "vision_use_head") || fields.boolean("vision_use_head");
  job.vision.pooling = head ? Pooling::kAttention : Pooling::kMean;
  job.vision.classes = classes_of(fields);
}

void write_siglip_pool(const Job& job, Json& json) {
  write_siglip_vision(job, json);
  json["num_labels"] = job.vision.classes;
}

JsonFields vision_of(const JsonFields& fields) {
  return {fields.object("vision_config"), fields.where() + ": vision_config"};
}

void read_siglip(const JsonFields& fields, Job& job) { read_siglip_pool(vision_of(fields), job); }

// The classifier reads the mean of the tokens, so that such files have no head.
void read_siglip_classes(const JsonFields& fields, Job& job) {
  read_siglip_vision(vision_of(fields), job);
  job.vision.classes = classes_of(fields);
}

void write_siglip_classes(const Job& job, Json& json) {
  Json vision{{"model_type", "siglip_vision_model"}};
  write_siglip_vision(job, vision);
  json.update({{"vision_config", std::move(vision)}, {"num_labels", job.vision.classes}});
}

void as_siglip_pool(Job& job) {
  as_siglip_vision(job);
  job.vision.pooling = Pooling::kAttention;
}

void as_vit(Job& job) {
  images_by_class_token(job);
  job.vision.pre_norm = false;
}

constexpr std::array kVitRules = {
    Rule{"patch_embed.proj.weight", "vit.embeddings.patch_embeddings.projection.weight",
         Form::kPatches},
    Rule{"patch_embed.proj.bias", "vit.embeddings.patch_embeddings.projection.bias"},
    Rule{"cls_token", "vit.embeddings.cls_token", Form::kWithOne},
    Rule{"pos_embed", "vit.embeddings.position_embeddings", Form::kWithOne},
    Rule{"blocks.*.norm1.*", "vit.encoder.layer.*.layernorm_before.*"},
    Rule{"blocks.*.attn.qkv.*", "vit.encoder.layer.*.attention.attention.{query,key,value}.*"},
    Rule{"blocks.*.attn.proj.*", "vit.encoder.layer.*.attention.output.dense.*"},
    Rule{"blocks.*.norm2.*", "vit.encoder.layer.*.layernorm_after.*"},
    Rule{"blocks.*.mlp.fc1.*", "vit.encoder.layer.*.intermediate.dense.*"},
    Rule{"blocks.*.mlp.fc2.*", "vit.encoder.layer.*.output.dense.*"},
    Rule{"norm.*", "vit.layernorm.*"},
    Rule{"head.*", "classifier.*"},
};

constexpr std::array kClassifierRules = {Rule{"head.*", "classifier.*"}};

}  // namespace

FamilyFiles vit_hugging_face() {
  constexpr DataSource kImages = DataSource::kStripes;
  constexpr const char* kSiglip = "SiglipImageProcessor";
  return {.classes = {{kImages, "vit", "ViTForImageClassification", as_vit, read_vit, write_vit,
                       "ViTImageProcessor"},
                      {kImages, "clip_vision_model", "CLIPVisionModel", as_clip_vision,
                       read_clip_classes, write_clip_classes},
                      {kImages, "siglip_vision_model", "SiglipVisionModel", as_siglip_pool,
                       read_siglip_pool, write_siglip_pool, kSiglip},
                      {kImages, "siglip", "SiglipForImageClassification", as_siglip_vision,
                       read_siglip_classes, write_siglip_classes, kSiglip},
                      {kImages, "siglip", "SiglipModel", as_siglip_pool, read_siglip,
                       write_siglip_pool, kSiglip}},
          .names = {{.name = "ViTForImageClassification",
                     .rules = kVitRules,
                     .fits =
                         [](const Job& job) {
                           return !job.vision.pre_norm && job.vision.pooling == Pooling::kClass;
                         }},
                    {.name = "CLIPVisionModel",
                     .tower = "",
                     .tower_there = "vision_model.",
                     .idle = "*.embeddings.position_ids",
                     .zeros = "head.*",
                     .fits = [](const Job& job) { return job.vision.pre_norm; }},
                    {.name = "SiglipForImageClassification",
                     .rules = kClassifierRules,
                     .tower = "",
                     .tower_there = "vision_model.",
                     .idle = "*.embeddings.position_ids,vision_model.head.*",
                     .fits =
                         [](const Job& job) {
                           return !job.vision.pre_norm && job.vision.pooling == Pooling::kMean;
                         }},
                    {.name = "SiglipVisionModel",
                     .tower = "",
                     .tower_there = "vision_model.",
                     .idle = "*.embeddings.position_ids,text_model.*,logit_scale,logit_bias",
                     .zeros = "head.*",
                     .sign = "!classifier.weight",
                     .fits = [](const Job& job) {
                       return !job.vision.pre_norm && job.vision.pooling != Pooling::kClass;
                     }}}};
}

}  // namespace trireme::convert
