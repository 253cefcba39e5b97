// LLaVA: a tower of CLIP or SigLIP, a projector of two layers and a decoder, each with a config.json of its own inside.
#include "trireme/families/vlm/hugging_face.h"

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/checkpoint/convert/families.h"
#include "trireme/checkpoint/convert/hugging_face.h"
#include "trireme/config/families.h"
#include "trireme/families/vit/hugging_face.h"
#include "trireme/families/vlm/keys_checks.h"
#include "trireme/formats/shown.h"
#include "trireme/formats/tiling.h"

namespace trireme::convert {

using config::DataSource;
using config::Job;
using formats::JsonFields;

Job decoder_of(const Job& job) {
  Job text;
  text.model = job.model;
  text.model.family = config::decoder_alone(job.model.family);
  return text;
}

std::int64_t token_id_of(const JsonFields& fields, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (!says(fields, key)) continue;
    const Json& said = fields.any(key);  // an id, or several of which one ends a text
    const Json& first = said.is_array() && !said.empty() ? said.front() : said;
    return formats::json_integer(first, fields.where() + ": " + key, 0, kMostSize);
  }
  return -1;
}

void read_decoder(const Json& decoder, const std::string& where, const char* known, Job& job) {
  const Job text = job_of_config(decoder.dump(), where);
  const config::Family own = job.model.family;
  // Fused layers have no place among the tensors of these classes.
  if (text.model.family != config::decoder_alone(own) || text.llama != config::Llama{} ||
      decoder.at("model_type") == "phi3")
    fail(ErrorKind::kData, "{}: model_type is another than {}, which family vlm has for decoders",
         where, known);
  job.model = text.model;
  job.model.family = own;
}

namespace {

// The object of this key, of the class that it is of unless it says so; published files leave out what LlamaConfig and
// MistralConfig have for defaults.
Json nested(const JsonFields& fields, const char* key, const char* type) {
  Json inner = says(fields, key) ? fields.object(key) : Json::object();
  if (!inner.contains("model_type")) inner["model_type"] = type;
  const bool mistral = inner["model_type"] == "mistral";
  if (!mistral && inner["model_type"] != "llama") return inner;
  Json whole{{"hidden_size", 4096},
             {"intermediate_size", mistral ? 14336 : 11008},
             {"num_hidden_layers", 32},
             {"num_attention_heads", 32},
             {"max_position_embeddings", mistral ? 131072 : 2048},
             {"vocab_size", 32000}};
  whole.update(inner);
  return whole;
}

constexpr const char *kClipVision = "clip_vision_model", *kSiglipVision = "siglip_vision_model";

// From theirs, which count the embedding as 0, to the block whose output is read. Their last block has no norm after
// it; that of family vlm has one.
std::int64_t layer_of(const JsonFields& fields, std::int64_t layers) {
  const std::int64_t given = says(fields, "vision_feature_layer")
                                 ? fields.integer("vision_feature_layer", -layers, layers)
                                 : -2;
  const std::int64_t block = given > 0 ? given - 1 : layers + given;
  if (given == 0 || block < 0 || block == layers - 1)
    fail(ErrorKind::kData,
         "{}: vision_feature_layer is {} of {} layers; family vlm reads the output of a block "
         "before "
         "the last, such as -2",
         fields.where(), given, layers);
  return given > 0 ? block : given;
}

// Sides of the grids of up to 4 tiles, height first, in the order in which they are preferred.
Json pinpoints(const Job& job) {
  const std::int64_t side = job.vision.image;
  const auto order = job.vlm.fit == config::VlmFit::kWide ? formats::GridOrder::kWideFirst
                                                          : formats::GridOrder::kTallFirst;
  Json all = Json::array();
  for (const formats::TileGrid& grid : formats::tile_grids(4, order))
    all.push_back({grid.rows * side, grid.columns * side});
  return all;
}

Json in_order(Json list) {
  std::sort(list.begin(), list.end());
  return list;
}

// Of two tiles the grid that comes first is chosen where both are equally good.
config::VlmFit grids_of(const Json& pinpoints, std::int64_t side) {
  const Json wide = {side, 2 * side}, tall = {2 * side, side};
  return std::find(pinpoints.begin(), pinpoints.end(), wide) <
                 std::find(pinpoints.begin(), pinpoints.end(), tall)
             ? config::VlmFit::kWide
             : config::VlmFit::kTall;
}

// Of an image that is one tile. LLaVA 1.5 was trained on padded ones.
config::VlmFit fit_of(const JsonFields& fields) {
  if (!says(fields, "image_aspect_ratio")) return config::VlmFit::kPad;
  const std::string given = fields.string("image_aspect_ratio");
  if (given == "pad") return config::VlmFit::kPad;
  if (given == "square") return config::VlmFit::kTall;
  fail(ErrorKind::kData, "{}: image_aspect_ratio is {}; pad and square can be read", fields.where(),
       formats::shown(given));
}

// CLIP's or SigLIP's.
void read_tower(const JsonFields& tower, Job& job) {
  const std::string type = tower.string("model_type");
  if (type == kSiglipVision) {
    as_siglip_vision(job);
    return read_siglip_vision(tower, job);
  }
  need(tower, "model_type", kClipVision);
  as_clip_vision(job);
  read_clip_vision(tower, job);
}

// Which of the tower's tokens are used: all but a class token.
const char* selected(const Job& job) {
  return job.vision.pooling == config::Pooling::kClass ? "default" : "full";
}

// A file that says nothing drops the first token, which a tower without a class token does not have to spare.
void check_selected(const JsonFields& fields, const Job& job) {
  const char* key = "vision_feature_select_strategy";
  const std::string given = says(fields, key) ? fields.string(key) : "default";
  if (given != selected(job))
    fail(ErrorKind::kData, "{}: {} is {}; family vlm has {} with this vision_config, which {}",
         fields.where(), key, formats::shown(given), selected(job),
         job.vision.pooling == config::Pooling::kClass ? "drops the class token"
                                                       : "has no class token to drop");
}

void read_parts(const JsonFields& fields, Job& job) {
  need(fields, "projector_hidden_act", "gelu");
  need(fields, "multimodal_projector_bias", true);
  const Json vision = nested(fields, "vision_config", kClipVision);
  const JsonFields tower(vision, fields.where() + ": vision_config");
  read_tower(tower, job);
  check_selected(fields, job);
  job.vlm.layer = layer_of(fields, job.vision.layers);
  const std::string where = fields.where() + ": text_config";
  const Json decoder = nested(fields, "text_config", "llama");
  read_decoder(decoder, where, "llama, mistral, qwen2, qwen3 and smollm3", job);
  job.vlm.tokens = {token_id_of(fields, {"image_token_index", "image_token_id"}),
                    token_id_of(JsonFields(decoder, where), {"eos_token_id"})};
}

void write_parts(const Job& job, Json& json) {
  if (config::reads_last(job))
    fail(ErrorKind::kUsage,
         "vlm.layer={}: family vlm has a norm after the tower's last block, which LLaVA does not "
         "have; convert a model that reads an earlier block",
         job.vlm.layer);
  const bool clip = job.vision.pooling == config::Pooling::kClass;
  Json vision{{"model_type", clip ? kClipVision : kSiglipVision}};
  if (clip)
    write_clip_vision(job, vision);
  else
    write_siglip_vision(job, vision);
  Json decoder = Json::parse(hugging_face_config(decoder_of(job)));
  decoder["eos_token_id"] = job.vlm.tokens[1];
  json.update({{"vision_config", vision},
               {"text_config", std::move(decoder)},
               {"vision_feature_layer", config::blocks_read(job) - job.vision.layers - 1},
               {"vision_feature_select_strategy", selected(job)},
               {"projector_hidden_act", "gelu"},
               {"multimodal_projector_bias", true},
               {"image_token_index", job.vlm.tokens[0]},
               {"tie_word_embeddings", job.model.tied}});
}

void read_llava(const JsonFields& fields, Job& job) {
  read_parts(fields, job);
  job.vlm.fit = fit_of(fields);
}

void write_llava(const Job& job, Json& json) {
  write_parts(job, json);
  json["image_aspect_ratio"] = job.vlm.fit == config::VlmFit::kPad ? "pad" : "square";
}

void read_llava_next(const JsonFields& fields, Job& job) {
  read_parts(fields, job);
  job.vlm.fit = config::VlmFit::kWide;  // as in the default list of transformers
  if (!says(fields, "image_grid_pinpoints")) return;
  const Json given = fields.array("image_grid_pinpoints");
  if (in_order(given) != in_order(pinpoints(job)))
    fail(ErrorKind::kData,
         "{}: image_grid_pinpoints is {}, family vlm has the grids of up to 4 "
         "tiles, {}",
         fields.where(), formats::shown_json(given), pinpoints(job).dump());
  job.vlm.fit = grids_of(given, job.vision.image);
}

void write_llava_next(const Job& job, Json& json) {
  write_parts(job, json);
  json.update({{"image_grid_pinpoints", pinpoints(job)}, {"use_image_newline_parameter", true}});
}

// One tile of all of an image; of any resolution with those of up to 4 more.
void as_llava(Job& job) {
  if (job.vision.pooling == config::Pooling::kClass)
    as_clip_vision(job);
  else
    as_siglip_vision(job);
  job.projector = {.kind = config::ProjectorKind::kMlp};
  job.vlm.max_tiles = 0;
  job.vlm.mrope = job.vlm.deepstack = "";
  job.vlm.cross = config::Vlm{}.cross;
}

void as_llava_next(Job& job) {
  as_llava(job);
  job.vlm.max_tiles = 4;
}

constexpr std::array kLlavaRules = {
    Rule{"model.image_newline", "image_newline", Form::kWithoutOne},
    Rule{"multi_modal_projector.**", "multi_modal_projector.**"},
    Rule{"**", "language_model.**"},
};

// As transformers 4.52 and later save it.
constexpr std::array kLaterRules = {
    Rule{"model.image_newline", "model.image_newline", Form::kWithoutOne},
    Rule{"multi_modal_projector.**", "model.multi_modal_projector.**"},
    Rule{"model.**", "model.language_model.**"},
    Rule{"**", "**"},
};

bool has_mlp(const Job& job) { return job.projector.kind != config::ProjectorKind::kMerger; }

constexpr Names kLlava = {.name = "LlavaNextForConditionalGeneration",
                          .rules = kLlavaRules,
                          .tower = "vision_tower.",
                          .tower_there = "vision_tower.vision_model.",
                          .decoder = "language_model",
                          .reads_early = true,
                          .idle =
                              "*.embeddings.position_ids,*.rotary_emb.inv_freq,"
                              "language_model.lm_head.weight",
                          .fits = has_mlp};

constexpr Names later(Names names) {
  names.rules = kLaterRules;
  names.tower_there = "model.vision_tower.vision_model.";
  names.idle = "*.embeddings.position_ids,*.rotary_emb.inv_freq,lm_head.weight";
  names.sign = "model.multi_modal_projector.linear_1.weight";
  return names;
}

// With one tile of all of an image there are no rows to end.
constexpr Names without_newline(Names names) {
  names.name = "LlavaForConditionalGeneration";
  names.zeros = "model.image_newline";
  names.fits = [](const config::Job& job) { return has_mlp(job) && job.vlm.max_tiles == 0; };
  return names;
}

}  // namespace

FamilyFiles vlm_hugging_face() {
  return {.classes = {{DataSource::kScenes, "llava", "LlavaForConditionalGeneration", as_llava,
                       read_llava, write_llava, "LlavaImageProcessor"},
                      {DataSource::kScenes, "llava_next", "LlavaNextForConditionalGeneration",
                       as_llava_next, read_llava_next, write_llava_next, "LlavaNextImageProcessor"},
                      qwen3_vl_class()},
          .names = {without_newline(kLlava), kLlava, later(without_newline(kLlava)), later(kLlava),
                    qwen3_vl_names()}};
}

}  // namespace trireme::convert
