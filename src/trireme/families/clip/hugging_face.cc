// Files of CLIPModel.
#include "trireme/families/vit/hugging_face.h"

#include <array>

#include "trireme/base/error.h"
#include "trireme/checkpoint/convert/families.h"

namespace trireme::convert {

using config::DataSource;
using config::Job;
using config::Model;
using formats::JsonFields;

namespace {

constexpr std::array kClipTextSizes = {
    Size<Model>{"num_hidden_layers", &Model::layers, 12, kMostLayers},
    Size<Model>{"hidden_size", &Model::hidden, 512},
    Size<Model>{"num_attention_heads", &Model::heads, 8},
    Size<Model>{"intermediate_size", &Model::ffn, 2048},
    Size<Model>{"max_position_embeddings", &Model::seq_len, 77},
    Size<Model>{"vocab_size", &Model::vocab, 49408}};

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

void as_clip(Job& job) {
  images_by_class_token(job);
  job.vision.pre_norm = true;
  job.contrastive.loss = config::ContrastiveLoss::kClip;
}

constexpr std::array kClipRules = {
    Rule{"visual.projection.weight", "visual_projection.weight"},
    Rule{"text.token_embedding.weight", "text_model.embeddings.token_embedding.weight"},
    Rule{"text.pos_embed", "text_model.embeddings.position_embedding.weight"},
    Rule{"text.blocks.*.norm1.*", "text_model.encoder.layers.*.layer_norm1.*"},
    Rule{"text.blocks.*.attn.qkv.*", "text_model.encoder.layers.*.self_attn.{q,k,v}_proj.*"},
    Rule{"text.blocks.*.attn.proj.*", "text_model.encoder.layers.*.self_attn.out_proj.*"},
    Rule{"text.blocks.*.norm2.*", "text_model.encoder.layers.*.layer_norm2.*"},
    Rule{"text.blocks.*.mlp.*.*", "text_model.encoder.layers.*.mlp.*.*"},
    Rule{"text.norm.*", "text_model.final_layer_norm.*"},
    Rule{"text.projection.weight", "text_projection.weight"},
    Rule{"logit_scale", "logit_scale", Form::kWithoutOne},
};

}  // namespace

FamilyFiles clip_hugging_face() {
  return {.classes = {{DataSource::kScenes, "clip", "CLIPModel", as_clip, read_clip, write_clip}},
          .names = {{.name = "CLIPModel",
                     .rules = kClipRules,
                     .tower = "visual.",
                     .tower_there = "vision_model.",
                     .idle = "*.embeddings.position_ids"}}};
}

}  // namespace trireme::convert
