#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/checkpoint/convert/config_classes.h"
#include "trireme/checkpoint/convert/hugging_face.h"
#include "trireme/config/families.h"
#include "trireme/config/layer_attention.h"
#include "trireme/formats/shown.h"

namespace trireme::convert {
namespace {

using config::Family;
using config::Job;
using formats::JsonFields;

void no_choice(Job&) {}

// Layers that attend in ways that a class has no keys for.
void as_full_attention(Job& job) { job.model.attention_layers = ""; }

void as_llama(Job& job) {
  job.model.qkv_bias = job.model.qk_norm = false;
  as_full_attention(job);
}

void as_mistral(Job& job) {
  job.model.qkv_bias = job.model.qk_norm = false;
  const std::vector<config::LayerAttention> layers = config::layer_attention(job.model);
  if (!slides_last(job.model) || layers.front() != layers.back()) as_full_attention(job);
}

void as_qwen2(Job& job) {
  job.model.qkv_bias = true;
  job.model.qk_norm = false;
  if (!slides_last(job.model)) as_full_attention(job);
}

void as_qwen3(Job& job) {
  job.model.qkv_bias = false;
  job.model.qk_norm = true;
  if (!slides_last(job.model)) as_full_attention(job);
}

void as_smollm3(Job& job) {
  job.model.qkv_bias = job.model.qk_norm = false;
  for (const config::LayerAttention& layer : config::layer_attention(job.model))
    if (layer.window > 0) return as_full_attention(job);
}

void images_by_class_token(Job& job) {
  job.vision.frames = job.vision.tubelet = 1;
  job.vision.positions = config::Positions::kLearned;
  job.vision.position_grid = 0;
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

// CLIP's tower, followed by the classes of family vit.
void as_clip_vision(Job& job) {
  images_by_class_token(job);
  job.vision.pre_norm = true;
}

// One tile of all of an image; of any resolution with those of up to 4 more.
void as_llava(Job& job) {
  as_clip_vision(job);
  job.projector = {.kind = config::ProjectorKind::kMlp};
  job.vlm.max_tiles = 0;
  job.vlm.mrope = job.vlm.deepstack = "";
  job.vlm.cross = config::Vlm{}.cross;
}

void as_llava_next(Job& job) {
  as_llava(job);
  job.vlm.max_tiles = 4;
}

void as_vjepa(Job& job) { job.vision.positions = config::Positions::kRotaryCompat; }

// Defaults of the reference code that no file contains.
void as_hnet(Job& job) {
  job.model.norm_eps = 1e-5;
  job.model.rope_theta = 10000;
}

// One probe, whose heads are the encoder's.
void as_vjepa_probe(Job& job) {
  as_vjepa(job);
  job.vision.chunked = false;
  job.probe.heads = job.vision.heads;
  job.probe.lr = job.probe.weight_decay = "";
}

struct Entry {
  Family family;
  config::DataSource source;  // of a job that is read
  const char* type;           // model_type
  const char* architecture;   // null: the file says neither this nor model_type
  void (*fix)(Job&);          // sets what the class has no other value of
  void (*read)(const JsonFields&, Job&);
  void (*write)(const Job&, Json&);
};

constexpr std::array kEntries = {
    Entry{Family::kGpt, config::DataSource::kText, "gpt2", "GPT2LMHeadModel", no_choice, read_gpt2,
          write_gpt2},
    Entry{Family::kLlama, config::DataSource::kText, "llama", "LlamaForCausalLM", as_llama,
          read_llama, write_llama},
    Entry{Family::kLlama, config::DataSource::kText, "mistral", "MistralForCausalLM", as_mistral,
          read_mistral, write_mistral},
    Entry{Family::kLlama, config::DataSource::kText, "qwen2", "Qwen2ForCausalLM", as_qwen2,
          read_qwen2, write_qwen2},
    Entry{Family::kLlama, config::DataSource::kText, "qwen3", "Qwen3ForCausalLM", as_qwen3,
          read_qwen3, write_qwen3},
    Entry{Family::kLlama, config::DataSource::kText, "smollm3", "SmolLM3ForCausalLM", as_smollm3,
          read_smollm3, write_smollm3},
    Entry{Family::kVit, config::DataSource::kStripes, "vit", "ViTForImageClassification", as_vit,
          read_vit, write_vit},
    Entry{Family::kVit, config::DataSource::kStripes, "clip_vision_model", "CLIPVisionModel",
          as_clip_vision, read_clip_classes, write_clip_classes},
    Entry{Family::kClip, config::DataSource::kScenes, "clip", "CLIPModel", as_clip, read_clip,
          write_clip},
    Entry{Family::kJepa, config::DataSource::kSquares, "vjepa2", "VJEPA2Model", as_vjepa,
          read_vjepa, write_vjepa},
    Entry{Family::kProbe, config::DataSource::kSquares, "vjepa2", "VJEPA2ForVideoClassification",
          as_vjepa_probe, read_vjepa_probe, write_vjepa_probe},
    Entry{Family::kVlm, config::DataSource::kScenes, "llava", "LlavaForConditionalGeneration",
          as_llava, read_llava, write_llava},
    Entry{Family::kVlm, config::DataSource::kScenes, "llava_next",
          "LlavaNextForConditionalGeneration", as_llava_next, read_llava_next, write_llava_next},
    Entry{Family::kHnet, config::DataSource::kText, "hnet", nullptr, as_hnet, read_hnet,
          write_hnet},
};

// Of a config.json; H-Net's own has lists and no model_type.
std::string type_of(const JsonFields& fields) {
  const bool hnet = fields.has("arch_layout") && !fields.has("model_type");
  return hnet ? "hnet" : fields.string("model_type");
}

// What `job` says that the class of an entry cannot.
std::vector<config::Difference> beyond(const Entry& entry, const Job& job) {
  Job fixed = job;
  entry.fix(fixed);
  return config::diff(fixed, job);
}

// Of several classes of a family the first that can say most.
const Entry* class_of(const Job& job) {
  const Entry* best = nullptr;
  for (const Entry& entry : kEntries)
    if (entry.family == job.model.family &&
        (best == nullptr || beyond(entry, job).size() < beyond(*best, job).size()))
      best = &entry;
  return best;
}

// Of the classes of a model_type the one that `architectures` names, else the first; null for a type that cannot be read.
const Entry* entry_of(const JsonFields& fields, const std::string& type) {
  const Json names = says(fields, "architectures") ? fields.array("architectures") : Json::array();
  const Entry* found = nullptr;
  for (const Entry& entry : kEntries) {
    if (type != entry.type) continue;
    if (entry.architecture != nullptr &&
        std::ranges::find(names, Json(entry.architecture)) != names.end())
      return &entry;
    if (found == nullptr) found = &entry;
  }
  return found;
}

}  // namespace

void need(const JsonFields& fields, const char* key, const Json& value) {
  if (says(fields, key) && fields.any(key) != value)
    fail(ErrorKind::kData, "{}: {} is {}, this model family has {} only", fields.where(), key,
         formats::shown(fields.any(key).dump()), value.dump());
}

std::string hugging_face_config(const Job& job) {
  const Entry* entry = class_of(job);
  if (entry == nullptr)
    fail(ErrorKind::kUsage,
         "model.family={}: has no model of Hugging Face's to be written as; gpt, llama, vit, clip, "
         "jepa, probe, vlm and hnet have",
         config::name(job.model.family));
  for (const config::Difference& key : beyond(*entry, job))
    fail(ErrorKind::kUsage, "{}={}: config.json of a {} cannot describe this; it can have {} only",
         key.key, key.after, entry->architecture != nullptr ? entry->architecture : entry->type,
         key.before);
  Json json;
  if (entry->architecture != nullptr)
    json = {{"architectures", {entry->architecture}}, {"model_type", entry->type}};
  entry->write(job, json);
  return json.dump(2) + "\n";
}

Job job_of_config(const std::string& text, const std::string& what) {
  const Json json = parse_json(text, what);
  const JsonFields fields(json, what);
  const std::string type = type_of(fields);
  const Entry* entry = entry_of(fields, type);
  if (entry == nullptr)
    fail(ErrorKind::kData,
         "{}: model_type is {}; gpt2, llama, mistral, qwen2, qwen3, smollm3, vit, clip, "
         "clip_vision_model, llava, llava_next and vjepa2 can be read, and H-Net's, which has an "
         "arch_layout",
         what, formats::shown(type));
  Job job;
  job.model.family = entry->family;
  job.data.source = entry->source;
  entry->fix(job);
  entry->read(fields, job);
  return config::parse_job(config::print_yaml(job), what + ", as a job");  // ranges of keys
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
