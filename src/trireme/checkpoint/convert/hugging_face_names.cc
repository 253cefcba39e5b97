#include "trireme/checkpoint/convert/hugging_face_names.h"

#include <array>
#include <optional>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"
#include "trireme/checkpoint/convert/config_classes.h"
#include "trireme/config/resolve/resolve_vlm.h"

namespace trireme::convert {
namespace {

using config::Family;

constexpr std::array kGptRules = {
    Rule{"transformer.h.*.attn.c_attn.weight", "transformer.h.*.attn.c_attn.weight", Form::kTurned},
    Rule{"transformer.h.*.attn.c_proj.weight", "transformer.h.*.attn.c_proj.weight", Form::kTurned},
    Rule{"transformer.h.*.mlp.*.weight", "transformer.h.*.mlp.*.weight", Form::kTurned},
    Rule{"**", "**"},
};

constexpr std::array kOwnRules = {Rule{"**", "**"}};

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

// CLIP's vision tower, which several classes have, after the prefix of its names. "pre_layrnorm" is their spelling.
constexpr std::array kClipTowerRules = {
    Rule{"patch_embed.proj.weight", "embeddings.patch_embedding.weight", Form::kPatches},
    Rule{"cls_token", "embeddings.class_embedding", Form::kWithoutOne},
    Rule{"pos_embed", "embeddings.position_embedding.weight"},
    Rule{"norm_pre.*", "pre_layrnorm.*"},
    Rule{"blocks.*.norm1.*", "encoder.layers.*.layer_norm1.*"},
    Rule{"blocks.*.attn.qkv.*", "encoder.layers.*.self_attn.{q,k,v}_proj.*"},
    Rule{"blocks.*.attn.proj.*", "encoder.layers.*.self_attn.out_proj.*"},
    Rule{"blocks.*.norm2.*", "encoder.layers.*.layer_norm2.*"},
    Rule{"blocks.*.mlp.*.*", "encoder.layers.*.mlp.*.*"},
    Rule{"norm.*", "post_layernorm.*"},
};

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

// The encoder as part of a model that classifies, and the probe on it.
constexpr std::array kVjepaProbeRules = {
    Rule{"target_encoder.patch_embed.proj.*", "vjepa2.encoder.embeddings.patch_embeddings.proj.*"},
    Rule{"target_encoder.blocks.*.attn.qkv.*",
         "vjepa2.encoder.layer.*.attention.{query,key,value}.*"},
    Rule{"target_encoder.blocks.*.attn.proj.*", "vjepa2.encoder.layer.*.attention.proj.*"},
    Rule{"target_encoder.blocks.*.**", "vjepa2.encoder.layer.*.**"},
    Rule{"target_encoder.norm.*", "vjepa2.encoder.layernorm.*"},
    Rule{"pooler.query_tokens", "pooler.query_tokens"},
    Rule{"pooler.blocks.*.norm1.*", "pooler.self_attention_layers.*.layer_norm1.*"},
    Rule{"pooler.blocks.*.attn.qkv.*", "pooler.self_attention_layers.*.self_attn.{q,k,v}_proj.*"},
    Rule{"pooler.blocks.*.attn.proj.*", "pooler.self_attention_layers.*.self_attn.out_proj.*"},
    Rule{"pooler.blocks.*.norm2.*", "pooler.self_attention_layers.*.layer_norm2.*"},
    Rule{"pooler.blocks.*.mlp.*.*", "pooler.self_attention_layers.*.mlp.*.*"},
    Rule{"pooler.cross_attention_block.norm1.*", "pooler.cross_attention_layer.layer_norm1.*"},
    Rule{"pooler.cross_attention_block.xattn.q.*",
         "pooler.cross_attention_layer.cross_attn.q_proj.*"},
    Rule{"pooler.cross_attention_block.xattn.kv.*",
         "pooler.cross_attention_layer.cross_attn.{k,v}_proj.*"},
    Rule{"pooler.cross_attention_block.norm2.*", "pooler.cross_attention_layer.layer_norm2.*"},
    Rule{"pooler.cross_attention_block.mlp.*.*", "pooler.cross_attention_layer.mlp.*.*"},
    Rule{"linear.*", "classifier.*"},
};

constexpr std::array kLlavaRules = {
    Rule{"model.image_newline", "image_newline", Form::kWithoutOne},
    Rule{"multi_modal_projector.**", "multi_modal_projector.**"},
    Rule{"**", "language_model.**"},
};

constexpr Names kLlava = {.name = "LlavaNextForConditionalGeneration",
                          .family = Family::kVlm,
                          .rules = kLlavaRules,
                          .tower = "vision_tower.",
                          .tower_there = "vision_tower.vision_model.",
                          .idle =
                              "*.embeddings.position_ids,*.rotary_emb.inv_freq,"
                              "language_model.lm_head.weight"};

// With one tile of all of an image there are no rows to end.
constexpr Names without_newline(Names names) {
  names.name = "LlavaForConditionalGeneration";
  names.zeros = "model.image_newline";
  names.fits = [](const config::Job& job) { return job.vlm.max_tiles == 0; };
  return names;
}

constexpr std::array kNames = {
    Names{.name = "GPT2LMHeadModel",
          .family = Family::kGpt,
          .rules = kGptRules,
          .bare = "transformer.",
          .idle = "*.attn.bias,*.attn.masked_bias,lm_head.weight"},
    Names{.name = "LlamaForCausalLM",
          .family = Family::kLlama,
          .rules = kOwnRules,
          .idle = "*.rotary_emb.inv_freq,lm_head.weight"},
    Names{.name = "ViTForImageClassification",
          .family = Family::kVit,
          .rules = kVitRules,
          .fits = [](const config::Job& job) { return !job.vision.pre_norm; }},
    Names{.name = "CLIPVisionModel",
          .family = Family::kVit,
          .tower = "",
          .tower_there = "vision_model.",
          .idle = "*.embeddings.position_ids",
          .zeros = "head.*"},
    without_newline(kLlava),
    kLlava,
    Names{.name = "CLIPModel",
          .family = Family::kClip,
          .rules = kClipRules,
          .tower = "visual.",
          .tower_there = "vision_model.",
          .idle = "*.embeddings.position_ids"},
    Names{.name = "HNetForCausalLM", .family = Family::kHnet, .rules = kOwnRules},
    Names{.name = "VJEPA2Model",
          .family = Family::kJepa,
          .rules = kVjepaRules,
          .left_out = "encoder.",
          .stand_ins = "target_encoder."},
    // The predictor lies in published files and takes no part in classifying.
    Names{.name = "VJEPA2ForVideoClassification",
          .family = Family::kProbe,
          .rules = kVjepaProbeRules,
          .idle = "vjepa2.predictor.*"},
    // Ours are those of the published checkpoints, which keep tables of positions that a rotary model does not read.
    Names{.name = "V-JEPA 2",
          .family = Family::kJepa,
          .rules = kPublishedVjepaRules,
          .idle = "predictor.mask_tokens.*,encoder.pos_embed,target_encoder.pos_embed,"
                  "predictor.predictor_pos_embed",
          .sign = "target_encoder.patch_embed.proj.weight"},
};

std::vector<std::string_view> cut_at(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (std::size_t end = 0; end != text.npos; text.remove_prefix(end == text.npos ? 0 : end + 1)) {
    end = text.find(separator);
    pieces.push_back(text.substr(0, end));
  }
  return pieces;
}

// "a{b,c}d" as "abd" and "acd".
std::vector<std::string> spelled_out(std::string_view pattern) {
  const std::size_t open = pattern.find('{'), close = pattern.find('}');
  if (open == pattern.npos) return {std::string(pattern)};
  std::vector<std::string> all;
  for (const std::string_view choice : cut_at(pattern.substr(open + 1, close - open - 1), ','))
    all.push_back(
        fmt::format("{}{}{}", pattern.substr(0, open), choice, pattern.substr(close + 1)));
  return all;
}

// What the stars of a pattern stand for in a name, if it fits.
std::optional<std::vector<std::string>> stars(std::string_view pattern, std::string_view name) {
  std::vector<std::string> found;
  for (const std::string_view segment : cut_at(pattern, '.')) {
    if (segment == "**") {
      found.emplace_back(std::exchange(name, {}));
      break;
    }
    const std::size_t end = name.find('.');
    const std::string_view here = name.substr(0, end);
    if (here.empty() || (segment != "*" && segment != here)) return std::nullopt;
    if (segment == "*") found.emplace_back(here);
    name.remove_prefix(end == name.npos ? name.size() : end + 1);
  }
  if (!name.empty()) return std::nullopt;
  return found;
}

std::string filled(std::string_view pattern, const std::vector<std::string>& stars) {
  std::string text;
  auto next = stars.begin();
  for (const std::string_view segment : cut_at(pattern, '.')) {
    const bool star = segment.starts_with('*');
    text += fmt::format("{}{}", text.empty() ? "" : ".", star ? std::string_view(*next) : segment);
    next += star;
  }
  return text;
}

std::vector<std::int64_t> formed(Form form, std::vector<std::int64_t> shape,
                                 const config::Job& job) {
  const std::int64_t patch = job.vision.patch;
  switch (form) {
    case Form::kSame:
    case Form::kNumbered: break;
    case Form::kTurned: std::swap(shape[0], shape[1]); break;
    case Form::kPatches: return {shape[0], 3, patch, patch};
    case Form::kWithoutOne: shape.erase(shape.begin()); break;
    case Form::kWithOne: shape.insert(shape.begin(), 1); break;
    case Form::kStacked: shape.insert(shape.begin(), written_mask_tokens(job.jepa)); break;
  }
  return shape;
}

// Which of several tensors a name with a number at its end is.
std::int64_t number_of(std::string_view name) {
  return std::stoll(std::string(name.substr(name.rfind('.') + 1)));
}

std::vector<Part> parts_by(const Rule& rule, const std::vector<std::string>& stars,
                           const config::Job& job, const model::ParamSpec& param) {
  const std::vector<std::string> theirs = spelled_out(rule.theirs);
  const auto pieces = static_cast<std::int64_t>(theirs.size());
  std::vector<std::int64_t> shape = formed(rule.form, param.shape, job);
  const std::int64_t count = param.numel() / pieces;
  if (pieces > 1) shape[0] /= pieces;
  const bool stacked = rule.form == Form::kStacked;
  std::vector<Part> parts;
  for (const std::string& name : theirs)
    parts.push_back({.name = filled(name, stars),
                     .shape = shape,
                     .form = rule.form,
                     .offset = stacked ? number_of(param.name) * count : 0,
                     .count = count,
                     .copies = stacked ? shape[0] / job.jepa.mask_tokens : 1});
  return parts;
}

// By the first that fits.
std::optional<std::vector<Part>> parts_by_rules(std::span<const Rule> rules, std::string_view name,
                                                const config::Job& job,
                                                const model::ParamSpec& param) {
  for (const Rule& rule : rules)
    if (const auto found = stars(rule.ours, name)) return parts_by(rule, *found, job, param);
  return std::nullopt;
}

bool begins_at_zero(const Names& names, const std::string& name) {
  return !names.zeros.empty() && matches(names.zeros, name);
}

}  // namespace

std::vector<const Names*> names_of(const config::Job& job) {
  std::vector<const Names*> all;
  for (const Names& names : kNames)
    if (names.family == job.model.family && (names.fits == nullptr || names.fits(job)))
      all.push_back(&names);
  return all;
}

bool has_place(const Names& names, const model::ParamSpec& param) {
  return (names.left_out.empty() || !param.name.starts_with(names.left_out)) &&
         !begins_at_zero(names, param.name);
}

std::string idle_tensors(const Names& names, const config::Job& job) {
  std::string idle(names.idle);
  if (job.model.family != Family::kVlm) return idle;
  // The tower has further blocks after those that are read.
  for (std::int64_t layer = config::blocks_read(job); layer < job.vision.layers; ++layer)
    idle += fmt::format(",{}encoder.layers.{}.*", names.tower_there, layer);
  return fmt::format("{},{}post_layernorm.*", idle, names.tower_there);
}

std::vector<Part> parts_of(const Names& names, const config::Job& job,
                           const model::ParamSpec& param) {
  if (begins_at_zero(names, param.name)) return {};
  const std::string name =
      has_place(names, param)
          ? param.name
          : fmt::format("{}{}", names.stand_ins, param.name.substr(names.left_out.size()));
  std::optional<std::vector<Part>> parts;
  if (!names.tower_there.empty() && name.starts_with(names.tower)) {
    parts = parts_by_rules(kClipTowerRules, std::string_view(name).substr(names.tower.size()), job,
                           param);
    if (parts)
      for (Part& part : *parts) part.name.insert(0, names.tower_there);
  }
  if (!parts) parts = parts_by_rules(names.rules, name, job, param);
  if (!parts) fail(ErrorKind::kInternal, "{} has no name among those of {}", name, names.name);
  return *std::move(parts);
}

}  // namespace trireme::convert
