#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/convert/hugging_face.h"
#include "trireme/formats/json_fields.h"
#include "trireme/formats/shown.h"

namespace trireme::convert {
namespace {

using config::Activation;
using config::Family;
using config::Job;
using config::Model;
using config::Vision;
using formats::JsonFields;

constexpr std::int64_t kMost = std::int64_t{1} << 30;  // of any size

bool says(const JsonFields& fields, const char* key) {
  return fields.has(key) && !fields.any(key).is_null();
}

std::int64_t size_or(const JsonFields& fields, const char* key, std::int64_t otherwise) {
  return says(fields, key) ? fields.integer(key, 1, kMost) : otherwise;
}

double number_or(const JsonFields& fields, const char* key, double otherwise) {
  return fields.has(key) ? fields.number(key) : otherwise;
}

// What changes the function and is not built here, unless it has this value or is absent.
void need(const JsonFields& fields, const char* key, const Json& value) {
  if (says(fields, key) && fields.any(key) != value)
    fail(ErrorKind::kData, "{}: {} is {}, this model family has {} only", fields.where(), key,
         formats::shown(fields.any(key).dump()), value.dump());
}

// What a class calls the sizes of a section, and what it takes them to be where they are not said; 0: they must be.
template <typename Section>
struct Size {
  const char* key;
  std::int64_t Section::*size;
  std::int64_t otherwise = 0;
};

constexpr std::array kGpt2Sizes = {
    Size<Model>{"n_layer", &Model::layers}, Size<Model>{"n_embd", &Model::hidden},
    Size<Model>{"n_head", &Model::heads}, Size<Model>{"n_positions", &Model::seq_len},
    Size<Model>{"vocab_size", &Model::vocab}};

constexpr std::array kLlamaSizes = {Size<Model>{"num_hidden_layers", &Model::layers},
                                    Size<Model>{"hidden_size", &Model::hidden},
                                    Size<Model>{"num_attention_heads", &Model::heads},
                                    Size<Model>{"intermediate_size", &Model::ffn},
                                    Size<Model>{"max_position_embeddings", &Model::seq_len},
                                    Size<Model>{"vocab_size", &Model::vocab}};

constexpr std::array kVitSizes = {Size<Vision>{"image_size", &Vision::image, 224},
                                  Size<Vision>{"patch_size", &Vision::patch, 16},
                                  Size<Vision>{"num_hidden_layers", &Vision::layers, 12},
                                  Size<Vision>{"hidden_size", &Vision::hidden, 768},
                                  Size<Vision>{"num_attention_heads", &Vision::heads, 12},
                                  Size<Vision>{"intermediate_size", &Vision::ffn, 3072}};

constexpr std::array kClipVisionSizes = {Size<Vision>{"image_size", &Vision::image, 224},
                                         Size<Vision>{"patch_size", &Vision::patch, 32},
                                         Size<Vision>{"num_hidden_layers", &Vision::layers, 12},
                                         Size<Vision>{"hidden_size", &Vision::hidden, 768},
                                         Size<Vision>{"num_attention_heads", &Vision::heads, 12},
                                         Size<Vision>{"intermediate_size", &Vision::ffn, 3072}};

constexpr std::array kClipTextSizes = {Size<Model>{"num_hidden_layers", &Model::layers, 12},
                                       Size<Model>{"hidden_size", &Model::hidden, 512},
                                       Size<Model>{"num_attention_heads", &Model::heads, 8},
                                       Size<Model>{"intermediate_size", &Model::ffn, 2048},
                                       Size<Model>{"max_position_embeddings", &Model::seq_len, 77},
                                       Size<Model>{"vocab_size", &Model::vocab, 49408}};

constexpr std::array kVjepaSizes = {Size<Vision>{"crop_size", &Vision::image, 256},
                                    Size<Vision>{"patch_size", &Vision::patch, 16},
                                    Size<Vision>{"frames_per_clip", &Vision::frames, 64},
                                    Size<Vision>{"tubelet_size", &Vision::tubelet, 2},
                                    Size<Vision>{"num_hidden_layers", &Vision::layers, 24},
                                    Size<Vision>{"hidden_size", &Vision::hidden, 1024},
                                    Size<Vision>{"num_attention_heads", &Vision::heads, 16}};

constexpr std::array kVjepaPredictorSizes = {
    Size<config::Jepa>{"pred_num_hidden_layers", &config::Jepa::layers, 12},
    Size<config::Jepa>{"pred_hidden_size", &config::Jepa::hidden, 384},
    Size<config::Jepa>{"pred_num_attention_heads", &config::Jepa::heads, 12}};

void read_sizes(const JsonFields& fields, const auto& sizes, auto& section) {
  for (const auto& [key, size, otherwise] : sizes)
    section.*size =
        otherwise == 0 ? fields.integer(key, 1, kMost) : size_or(fields, key, otherwise);
}

void write_sizes(Json& json, const auto& sizes, const auto& section) {
  for (const auto& [key, size, otherwise] : sizes) json[key] = section.*size;
}

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

void read_gpt2(const JsonFields& fields, Job& job) {
  need(fields, "activation_function", "gelu_new");
  need(fields, "scale_attn_weights", true);
  need(fields, "scale_attn_by_inverse_layer_idx", false);
  read_sizes(fields, kGpt2Sizes, job.model);
  job.model.ffn = size_or(fields, "n_inner", 4 * job.model.hidden);
  job.model.norm_eps = number_or(fields, "layer_norm_epsilon", 1e-5);
  job.model.dropout = number_or(fields, "resid_pdrop", 0.1);
  job.model.tied = fields.has("tie_word_embeddings") ? fields.boolean("tie_word_embeddings") : true;
}

void write_gpt2(const Job& job, Json& json) {
  const Model& model = job.model;
  write_sizes(json, kGpt2Sizes, model);
  json.update({{"n_inner", model.ffn},
               {"layer_norm_epsilon", model.norm_eps},
               {"activation_function", "gelu_new"},
               {"attn_pdrop", model.dropout},
               {"embd_pdrop", model.dropout},
               {"resid_pdrop", model.dropout},
               {"tie_word_embeddings", model.tied}});
}

void read_llama(const JsonFields& fields, Job& job) {
  need(fields, "hidden_act", "silu");
  need(fields, "attention_bias", false);
  need(fields, "mlp_bias", false);
  need(fields, "rope_scaling", nullptr);
  Model& model = job.model;
  read_sizes(fields, kLlamaSizes, model);
  model.kv_heads = size_or(fields, "num_key_value_heads", model.heads);
  need(fields, "head_dim", model.hidden / model.heads);
  model.norm_eps = number_or(fields, "rms_norm_eps", 1e-6);
  model.rope_theta = number_or(fields, "rope_theta", 10000);
  model.tied = fields.has("tie_word_embeddings") && fields.boolean("tie_word_embeddings");
}

void write_llama(const Job& job, Json& json) {
  const Model& model = job.model;
  write_sizes(json, kLlamaSizes, model);
  json.update({{"num_key_value_heads", model.kv_heads},
               {"rms_norm_eps", model.norm_eps},
               {"rope_theta", model.rope_theta},
               {"hidden_act", "silu"},
               {"attention_bias", false},
               {"mlp_bias", false},
               {"tie_word_embeddings", model.tied}});
}

// What images and clips are, and towers without anything dropped.
void need_plain_tower(const JsonFields& fields, const char* channels) {
  need(fields, channels, 3);
  need(fields, "qkv_bias", true);
  for (const char* key : {"hidden_dropout_prob", "attention_probs_dropout_prob",
                          "attention_dropout", "drop_path_rate"})
    need(fields, key, 0);
}

void read_vit(const JsonFields& fields, Job& job) {
  need_plain_tower(fields, "num_channels");
  Vision& vision = job.vision;
  read_sizes(fields, kVitSizes, vision);
  vision.activation = activation_of(fields, "gelu");
  vision.norm_eps = number_or(fields, "layer_norm_eps", 1e-12);
  const auto labels =
      static_cast<std::int64_t>(says(fields, "id2label") ? fields.object("id2label").size() : 0);
  vision.classes = labels > 0 ? labels : size_or(fields, "num_labels", 2);
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
  need_plain_tower(vision, "num_channels");
  need_plain_tower(text, "num_channels");
  read_sizes(vision, kClipVisionSizes, job.vision);
  read_sizes(text, kClipTextSizes, job.model);
  job.vision.activation = activation_of(vision, "quick_gelu");
  if (activation_of(text, "quick_gelu") != job.vision.activation)
    fail(ErrorKind::kData,
         "{}: hidden_act of text_config and of vision_config differ; family clip "
         "has one for both towers",
         fields.where());
  job.vision.norm_eps = number_or(vision, "layer_norm_eps", 1e-5);
  job.model.norm_eps = number_or(text, "layer_norm_eps", 1e-5);
  job.contrastive.width = size_or(fields, "projection_dim", 512);
  job.run.micro_batch = job.run.global_batch;  // whose samples are all compared
}

void write_clip(const Job& job, Json& json) {
  Json vision{{"model_type", "clip_vision_model"}, {"num_channels", 3}},
      text{{"model_type", "clip_text_model"}};
  write_sizes(vision, kClipVisionSizes, job.vision);
  write_sizes(text, kClipTextSizes, job.model);
  vision["layer_norm_eps"] = job.vision.norm_eps;
  text["layer_norm_eps"] = job.model.norm_eps;
  for (Json* tower : {&vision, &text})
    tower->update({{"hidden_act", name_of(job.vision.activation)},
                   {"attention_dropout", 0.0},
                   {"projection_dim", job.contrastive.width}});
  // What ends a caption of bytes.
  if (job.data.source == config::DataSource::kScenes ||
      job.data.source == config::DataSource::kPairs)
    text["eos_token_id"] = 0;
  json.update({{"projection_dim", job.contrastive.width},
               {"vision_config", vision},
               {"text_config", text}});
}

// Times a width, rounded down, it gives another.
double ratio(std::int64_t ffn, std::int64_t hidden) {
  double ratio = static_cast<double>(ffn) / static_cast<double>(hidden);
  while (std::floor(ratio * static_cast<double>(hidden)) < static_cast<double>(ffn))
    ratio = std::nextafter(ratio, HUGE_VAL);
  return ratio;
}

void read_vjepa(const JsonFields& fields, Job& job) {
  need_plain_tower(fields, "in_chans");
  need(fields, "pred_mlp_ratio", 4);
  if (size_or(fields, "pred_num_mask_tokens", 10) < 2)
    fail(ErrorKind::kData, "{}: pred_num_mask_tokens is 1; family jepa has 2 kinds of masks",
         fields.where());
  Vision& vision = job.vision;
  read_sizes(fields, kVjepaSizes, vision);
  read_sizes(fields, kVjepaPredictorSizes, job.jepa);
  const double ffn =
      std::floor(number_or(fields, "mlp_ratio", 4) * static_cast<double>(vision.hidden));
  if (!(ffn >= 1 && ffn <= static_cast<double>(kMost)))
    fail(ErrorKind::kData, "{}: mlp_ratio is {}; needs one or more features", fields.where(),
         formats::shown(fields.any("mlp_ratio").dump()));
  vision.ffn = static_cast<std::int64_t>(ffn);
  vision.activation = activation_of(fields, "gelu");
  vision.norm_eps = number_or(fields, "layer_norm_eps", 1e-6);
}

void write_vjepa(const Job& job, Json& json) {
  write_sizes(json, kVjepaSizes, job.vision);
  write_sizes(json, kVjepaPredictorSizes, job.jepa);
  json.update({{"in_chans", 3},
               {"mlp_ratio", ratio(job.vision.ffn, job.vision.hidden)},
               {"pred_mlp_ratio", 4.0},
               {"pred_num_mask_tokens", 2},
               {"hidden_act", name_of(job.vision.activation)},
               {"layer_norm_eps", job.vision.norm_eps},
               {"qkv_bias", true},
               {"drop_path_rate", 0.0},
               {"attention_probs_dropout_prob", 0.0}});
}

void no_choice(Job&) {}

void images_by_class_token(Job& job) {
  job.vision.frames = job.vision.tubelet = 1;
  job.vision.positions = config::Positions::kLearned;
  job.vision.pooling = config::Pooling::kClass;
}

void as_vit(Job& job) {
  images_by_class_token(job);
  job.vision.pre_norm = false;
}

void as_clip(Job& job) {
  images_by_class_token(job);
  job.vision.pre_norm = true;
  job.contrastive.loss = config::ContrastiveLoss::kClip;
}

void as_vjepa(Job& job) { job.vision.positions = config::Positions::kRotaryCompat; }

struct Entry {
  Family family;
  config::DataSource source;  // of a job that is read
  const char* type;           // model_type
  const char* architecture;
  void (*fix)(Job&);  // sets what the class has no other value of
  void (*read)(const JsonFields&, Job&);
  void (*write)(const Job&, Json&);
};

constexpr std::array kEntries = {
    Entry{Family::kGpt, config::DataSource::kText, "gpt2", "GPT2LMHeadModel", no_choice, read_gpt2,
          write_gpt2},
    Entry{Family::kLlama, config::DataSource::kText, "llama", "LlamaForCausalLM", no_choice,
          read_llama, write_llama},
    Entry{Family::kVit, config::DataSource::kStripes, "vit", "ViTForImageClassification", as_vit,
          read_vit, write_vit},
    Entry{Family::kClip, config::DataSource::kScenes, "clip", "CLIPModel", as_clip, read_clip,
          write_clip},
    Entry{Family::kJepa, config::DataSource::kSquares, "vjepa2", "VJEPA2Model", as_vjepa,
          read_vjepa, write_vjepa},
};

}  // namespace

std::string hugging_face_config(const Job& job) {
  const auto* entry = std::ranges::find(kEntries, job.model.family, &Entry::family);
  if (entry == kEntries.end())
    fail(ErrorKind::kUsage,
         "model.family={}: has no model of Hugging Face's to be written as; gpt, llama, vit, clip "
         "and jepa have",
         config::name(job.model.family));
  Job fixed = job;
  entry->fix(fixed);
  for (const config::Difference& key : config::diff(fixed, job))
    fail(ErrorKind::kUsage, "{}={}: config.json of a {} cannot say it, which has {} only", key.key,
         key.after, entry->architecture, key.before);
  Json json{{"architectures", {entry->architecture}}, {"model_type", entry->type}};
  entry->write(job, json);
  return json.dump(2) + "\n";
}

Job job_of_config(const std::string& text, const std::string& what) {
  const Json json = parse_json(text, what);
  const JsonFields fields(json, what);
  const std::string type = fields.string("model_type");
  const auto* entry = std::ranges::find(kEntries, type, &Entry::type);
  if (entry == kEntries.end())
    fail(ErrorKind::kData, "{}: model_type is {}; gpt2, llama, vit, clip and vjepa2 can be read",
         what, formats::shown(type));
  Job job;
  job.model.family = entry->family;
  job.data.source = entry->source;
  entry->fix(job);
  entry->read(fields, job);
  return job;
}

std::set<std::string> files_of_index(const std::string& text, const std::string& what) {
  const Json json = parse_json(text, what);
  const Json& map = JsonFields(json, what).object("weight_map");
  std::set<std::string> files;
  for (const auto& [tensor, file] : map.items()) {
    if (!file.is_string() || !formats::is_plain_file_name(file.get_ref<const std::string&>()))
      fail(ErrorKind::kData, "{}: tensor {} is said to be in {}, which may not name a file", what,
           formats::shown(tensor), formats::shown(file.dump()));
    files.insert(file.get<std::string>());
  }
  return files;
}

}  // namespace trireme::convert
