// Names of parameters in the files of each class, by family.
#include <array>

#include "trireme/checkpoint/convert/hugging_face_names.h"

namespace trireme::convert {
namespace {

using config::Family;

constexpr std::array kGptRules = {
    Rule{"transformer.h.*.attn.c_attn.weight", "transformer.h.*.attn.c_attn.weight", Form::kTurned},
    Rule{"transformer.h.*.attn.c_proj.weight", "transformer.h.*.attn.c_proj.weight", Form::kTurned},
    Rule{"transformer.h.*.mlp.*.weight", "transformer.h.*.mlp.*.weight", Form::kTurned},
    Rule{"**", "**"},
};

constexpr std::array kNeoxRules = {
    Rule{"gpt_neox.layers.*.attention.query.*", "gpt_neox.layers.*.attention.query_key_value.*",
         Form::kQueries},
    Rule{"gpt_neox.layers.*.attention.key.*", "gpt_neox.layers.*.attention.query_key_value.*",
         Form::kKeys},
    Rule{"gpt_neox.layers.*.attention.value.*", "gpt_neox.layers.*.attention.query_key_value.*",
         Form::kValues},
    Rule{"**", "**"},
};

constexpr std::array kOwnRules = {Rule{"**", "**"}};

constexpr std::array kBehindATowerRules = {Rule{"model.**", "language_model.model.**"},
                                           Rule{"lm_head.**", "language_model.lm_head.**"}};

constexpr std::array kPhi3Rules = {
    Rule{"model.layers.*.self_attn.q_proj.weight", "model.layers.*.self_attn.qkv_proj.weight",
         Form::kFused},
    Rule{"model.layers.*.self_attn.k_proj.weight", "model.layers.*.self_attn.qkv_proj.weight",
         Form::kFused},
    Rule{"model.layers.*.self_attn.v_proj.weight", "model.layers.*.self_attn.qkv_proj.weight",
         Form::kFused},
    Rule{"model.layers.*.mlp.gate_proj.weight", "model.layers.*.mlp.gate_up_proj.weight",
         Form::kFused},
    Rule{"model.layers.*.mlp.up_proj.weight", "model.layers.*.mlp.gate_up_proj.weight",
         Form::kFused},
    Rule{"**", "**"},
};

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
                          .reads_early = true,
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
    Names{.name = "Phi3ForCausalLM",
          .family = Family::kLlama,
          .rules = kPhi3Rules,
          .idle = "*.rotary_emb.inv_freq,lm_head.weight",
          .sign = "model.layers.0.self_attn.qkv_proj.weight"},
    // A decoder of which the tower is left alone.
    Names{.name = "Gemma3ForConditionalGeneration",
          .family = Family::kLlama,
          .rules = kBehindATowerRules,
          .idle = "vision_tower.*,multi_modal_projector.*,language_model.lm_head.weight",
          .sign = "language_model.model.embed_tokens.weight"},
    Names{
        .name = "GPTNeoXForCausalLM",
        .family = Family::kNeox,
        .rules = kNeoxRules,
        .bare = "gpt_neox.",
        .idle = "*.attention.bias,*.attention.masked_bias,*.rotary_emb.inv_freq,embed_out.weight"},
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

}  // namespace

std::span<const Names> known_names() { return kNames; }

std::span<const Rule> clip_tower_rules() { return kClipTowerRules; }

}  // namespace trireme::convert
