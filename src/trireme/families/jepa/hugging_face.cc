// Files of VJEPA2Model.
#include "trireme/families/jepa/hugging_face.h"

#include <array>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/checkpoint/convert/families.h"
#include "trireme/families/vit/hugging_face.h"
#include "trireme/formats/shown.h"

namespace trireme::convert {

using config::DataSource;
using config::Job;
using config::Vision;
using formats::JsonFields;

namespace {

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
// Times a width, rounded down, it gives another.
double ratio(std::int64_t ffn, std::int64_t hidden) {
  double ratio = static_cast<double>(ffn) / static_cast<double>(hidden);
  while (std::floor(ratio * static_cast<double>(hidden)) < static_cast<double>(ffn))
    ratio = std::nextafter(ratio, HUGE_VAL);
  return ratio;
}

}  // namespace

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

void as_vjepa(Job& job) { job.vision.positions = config::Positions::kRotaryCompat; }

std::int64_t written_mask_tokens(const config::Jepa& jepa) {
  return jepa.mask_tokens == 1 ? kMaskTokens : jepa.mask_tokens;
}

namespace {

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

// Their one encoder is our teacher, which later phases use too.
constexpr std::array kVjepaRules = {
    Rule{"target_encoder.patch_embed.proj.*", "encoder.embeddings.patch_embeddings.proj.*"},
    Rule{"target_encoder.blocks.*.attn.qkv.*", "encoder.layer.*.attention.{query,key,value}.*"},
    Rule{"target_encoder.blocks.*.attn.proj.*", "encoder.layer.*.attention.proj.*"},
    Rule{"target_encoder.blocks.*.**", "encoder.layer.*.**"},
    Rule{"target_encoder.norm.*", "encoder.layernorm.*"},
    Rule{"predictor.predictor_embed.*", "predictor.embeddings.predictor_embeddings.*"},
    Rule{"predictor.mask_tokens.*", "predictor.embeddings.mask_tokens", Form::kStacked},
    Rule{"predictor.predictor_blocks.*.attn.qkv.*",
         "predictor.layer.*.attention.{query,key,value}.*"},
    Rule{"predictor.predictor_blocks.*.attn.proj.*", "predictor.layer.*.attention.proj.*"},
    Rule{"predictor.predictor_blocks.*.**", "predictor.layer.*.**"},
    Rule{"predictor.predictor_norm.*", "predictor.layernorm.*"},
    Rule{"predictor.predictor_proj.*", "predictor.proj.*"},
};

// As the published checkpoints name them.
constexpr std::array kPublishedVjepaRules = {
    Rule{"predictor.mask_tokens.*", "predictor.mask_tokens.*", Form::kNumbered},
    Rule{"**", "**"},
};

}  // namespace

FamilyFiles jepa_hugging_face() {
  return {
      .classes = {{DataSource::kSquares, "vjepa2", "VJEPA2Model", as_vjepa, read_vjepa, write_vjepa,
                   "VJEPA2VideoProcessor", true}},
      .names = {
          {.name = "VJEPA2Model",
           .rules = kVjepaRules,
           .left_out = "encoder.",
           .stand_ins =
               "target_encoder."},  // Ours are those of the published checkpoints, which keep tables of positions that a rotary model does not read.
          {.name = "V-JEPA 2",
           .rules = kPublishedVjepaRules,
           .idle = "predictor.mask_tokens.*,encoder.pos_embed,target_encoder.pos_embed,"
                   "predictor.predictor_pos_embed",
           .sign = "target_encoder.patch_embed.proj.weight"}}};
}

}  // namespace trireme::convert
