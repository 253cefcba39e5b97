// Files of Llama and of the decoders that differ little from it: Mistral, Phi-3, Qwen2, Qwen3, SmolLM3.
#include "trireme/families/llama/hugging_face.h"

#include <algorithm>
#include <string>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/checkpoint/convert/families.h"
#include "trireme/config/head_width.h"
#include "trireme/config/rope.h"
#include "trireme/formats/shown.h"

namespace trireme::convert {

using config::DataSource;
using config::Job;
using config::LayerAttention;
using config::Model;
using formats::JsonFields;

namespace {

// Of the classes: 32 key-value heads for both of Qwen, windows of 4096 tokens, from layer 28 on for Qwen, and in SmolLM3 a
// layer without rotary positions after three with them.
constexpr Defaults kQwen2{.kv_heads = 32}, kQwen3{.kv_heads = 32, .width = 128};
constexpr Defaults kMistral{.kv_heads = 8}, kSmolLm3{.kv_heads = 4, .tied = true};
constexpr std::int64_t kWindow = 4096, kFirstSliding = 28, kNopeInterval = 4;

bool all(std::int64_t) { return true; }

// The later layers of Qwen slide where its file says so.
void read_later_sliding(const JsonFields& fields, Model& model) {
  const bool slides = fields.has("use_sliding_window") && fields.boolean("use_sliding_window");
  const std::int64_t first = fields.has("max_window_layers")
                                 ? fields.integer("max_window_layers", 0, kMostSize)
                                 : kFirstSliding;
  model.attention_layers = config::print(
      sliding_layers(fields, model, slides ? size_or(fields, "sliding_window", kWindow) : 0,
                     [&](std::int64_t layer) { return layer >= first; }));
}

void write_later_sliding(const Model& model, Json& json) {
  const std::vector<LayerAttention> layers = config::layer_attention(model);
  json["use_sliding_window"] = layers.back().window > 0;
  if (layers.back().window == 0) return;
  json["sliding_window"] = layers.back().window;
  json["max_window_layers"] = std::ranges::count(layers, LayerAttention{});
}

}  // namespace

void read_rotary_decoder(const JsonFields& fields, const Defaults& defaults, Model& model,
                         const RopeKeys& rope) {
  read_sizes(fields, kLlamaSizes, model);
  model.kv_heads = size_or(fields, "num_key_value_heads",
                           defaults.kv_heads > 0 ? defaults.kv_heads : model.heads);
  need_multiple(fields, {"num_attention_heads", model.heads},
                {"num_key_value_heads", model.kv_heads});
  if (defaults.width == 0 && !says(fields, "head_dim"))
    need_multiple(fields, {"hidden_size", model.hidden}, {"num_attention_heads", model.heads});
  const std::int64_t even = model.hidden / model.heads;
  const std::int64_t head_dim =
      size_or(fields, "head_dim", defaults.width > 0 ? defaults.width : even);
  model.head_dim = head_dim * model.heads == model.hidden ? 0 : head_dim;
  model.norm_eps = number_or(fields, "rms_norm_eps", 1e-6);
  model.tied =
      fields.has("tie_word_embeddings") ? fields.boolean("tie_word_embeddings") : defaults.tied;
  model.rope_theta = defaults.theta;
  read_rope(fields, model, rope);
}

void write_rotary_decoder(const Model& model, Json& json) {
  write_sizes(json, kLlamaSizes, model);
  json.update({{"num_key_value_heads", model.kv_heads},
               {"head_dim", config::head_width(model)},
               {"rms_norm_eps", model.norm_eps},
               {"hidden_act", kSilu},
               {"tie_word_embeddings", model.tied}});
  write_rope(model, json);
}

std::vector<LayerAttention> sliding_layers(const JsonFields& fields, const Model& model,
                                           std::int64_t window,
                                           const std::function<bool(std::int64_t)>& slides) {
  std::vector<LayerAttention> layers(static_cast<std::size_t>(model.layers));
  const Json types = says(fields, "layer_types") ? fields.array("layer_types") : Json();
  if (!types.is_null() && types.size() != layers.size())
    fail(ErrorKind::kData, "{}: layer_types has {} entries for {} layers", fields.where(),
         types.size(), layers.size());
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const Json type = !types.is_null()                                         ? types[layer]
                      : window > 0 && slides(static_cast<std::int64_t>(layer)) ? "sliding_attention"
                                                                               : "full_attention";
    if (type != "full_attention" && (type != "sliding_attention" || window == 0))
      fail(ErrorKind::kData,
           "{}: layer_types has {}; full_attention and, with a sliding_window, sliding_attention "
           "can be read",
           fields.where(), formats::shown_json(type));
    if (type == "sliding_attention") layers[layer].window = window;
  }
  return layers;
}

void as_full_attention(Job& job) { job.model.attention_layers = ""; }

void read_biases(const JsonFields& fields, BiasKeys keys, Job& job) {
  const auto said = [&](const char* key) { return says(fields, key) && fields.boolean(key); };
  if (keys != BiasKeys::kNone) job.model.qkv_bias = job.llama.output_bias = said("attention_bias");
  if (keys == BiasKeys::kAll) job.llama.feed_forward_bias = said("mlp_bias");
}

void write_biases(const Job& job, BiasKeys keys, Json& json) {
  if (keys != BiasKeys::kNone) json["attention_bias"] = job.llama.output_bias;
  if (keys == BiasKeys::kAll) json["mlp_bias"] = job.llama.feed_forward_bias;
}

namespace {

bool has_long_rope(const Job& job) {
  return config::parse_rope_scaling(job.model.rope_scaling).kind ==
         config::RopeScaling::Kind::kLongRope;
}

}  // namespace

void as_decoder(Job& job, BiasKeys biases, config::Llama own) {
  own.output_bias = biases != BiasKeys::kNone && job.llama.output_bias;
  own.feed_forward_bias = biases == BiasKeys::kAll && job.llama.feed_forward_bias;
  job.llama = own;
  job.model.qkv_bias = own.output_bias;
  job.model.qk_norm = false;
  if (has_long_rope(job)) job.model.rope_scaling = "";
}

namespace {

bool slides_last(const Model& model) {
  const std::vector<LayerAttention> layers = config::layer_attention(model);
  const auto first = std::ranges::find_if_not(
      layers, [](const LayerAttention& layer) { return layer == LayerAttention{}; });
  return std::all_of(first, layers.end(), [&](const LayerAttention& layer) {
    return layer.window > 0 && layer == *first;
  });
}

void read_llama(const JsonFields& fields, Job& job) {
  need(fields, "hidden_act", kSilu);
  read_biases(fields, BiasKeys::kAll, job);
  read_rotary_decoder(fields, {}, job.model);
}

void write_llama(const Job& job, Json& json) {
  write_rotary_decoder(job.model, json);
  write_biases(job, BiasKeys::kAll, json);
}

void read_mistral(const JsonFields& fields, Job& job) {
  need(fields, "hidden_act", kSilu);
  read_rotary_decoder(fields, kMistral, job.model);
  // Null is no window, absent is the class's.
  const bool none = fields.has("sliding_window") && !says(fields, "sliding_window");
  job.model.attention_layers = config::print(sliding_layers(
      fields, job.model, none ? 0 : size_or(fields, "sliding_window", kWindow), all));
}

void write_mistral(const Job& job, Json& json) {
  write_rotary_decoder(job.model, json);
  const std::int64_t window = config::layer_attention(job.model)[0].window;
  json["sliding_window"] = window > 0 ? Json(window) : Json();
}

// Llama with fused layers, whose channels turn in part, or by lists of factors; without either written as Llama or
// Mistral.
bool is_phi3(const Job& job) { return job.llama.rotary_fraction != 1 || has_long_rope(job); }

void read_phi3(const JsonFields& fields, Job& job) {
  need(fields, "hidden_act", kSilu);
  need(fields, "attention_bias", false);
  for (const char* key : {"attention_dropout", "embd_pdrop", "resid_pdrop"}) need(fields, key, 0);
  read_rotary_decoder(fields, {}, job.model, {.rotary_fraction = &job.llama.rotary_fraction});
  config::rope_of(job.model, job.llama.rotary_fraction);  // refuses lists of another length
  job.model.norm_eps = number_or(fields, "rms_norm_eps", 1e-5);
  if (says(fields, "sliding_window"))
    job.model.attention_layers = config::print(
        sliding_layers(fields, job.model, fields.integer("sliding_window", 1, kMostSize), all));
}

void write_phi3(const Job& job, Json& json) {
  write_mistral(job, json);
  json.erase("head_dim");
  json["attention_bias"] = false;
  json["partial_rotary_factor"] = job.llama.rotary_fraction;
}

void read_qwen2(const JsonFields& fields, Job& job) {
  need(fields, "hidden_act", kSilu);
  read_rotary_decoder(fields, kQwen2, job.model);
  read_later_sliding(fields, job.model);
}

void write_qwen2(const Job& job, Json& json) {
  write_rotary_decoder(job.model, json);
  write_later_sliding(job.model, json);
}

void read_qwen3(const JsonFields& fields, Job& job) {
  need(fields, "hidden_act", kSilu);
  read_biases(fields, BiasKeys::kAttention, job);
  read_rotary_decoder(fields, kQwen3, job.model);
  read_later_sliding(fields, job.model);
}

void write_qwen3(const Job& job, Json& json) {
  write_rotary_decoder(job.model, json);
  write_later_sliding(job.model, json);
  write_biases(job, BiasKeys::kAttention, json);
}

void read_smollm3(const JsonFields& fields, Job& job) {
  need(fields, "hidden_act", kSilu);
  read_biases(fields, BiasKeys::kAll, job);
  need(fields, "use_sliding_window", false);
  Model& model = job.model;
  read_rotary_decoder(fields, kSmolLm3, model);
  const std::int64_t interval = size_or(fields, "no_rope_layer_interval", kNopeInterval);
  std::vector<LayerAttention> layers = sliding_layers(fields, model, 0, all);
  const Json rotated = says(fields, "no_rope_layers") ? fields.array("no_rope_layers") : Json();
  if (!rotated.is_null() && rotated.size() != layers.size())
    fail(ErrorKind::kData, "{}: no_rope_layers has {} numbers for {} layers", fields.where(),
         rotated.size(), layers.size());
  for (std::size_t layer = 0; layer < layers.size(); ++layer)  // 1: the layer has rotary positions
    layers[layer].rotary = rotated.is_null() ? (layer + 1) % static_cast<std::size_t>(interval) != 0
                                             : rotated[layer] == Json(1);
  model.attention_layers = config::print(layers);
}

void write_smollm3(const Job& job, Json& json) {
  write_rotary_decoder(job.model, json);
  Json rotated = Json::array();
  for (const LayerAttention& layer : config::layer_attention(job.model))
    rotated.push_back(layer.rotary ? 1 : 0);
  write_biases(job, BiasKeys::kAll, json);
  json.update({{"use_sliding_window", false}, {"no_rope_layers", rotated}});
}

void as_llama(Job& job) {
  as_decoder(job, BiasKeys::kAll);
  as_full_attention(job);
}

// All layers have a window, or none.
void as_alike(Job& job) {
  const std::vector<config::LayerAttention> layers = config::layer_attention(job.model);
  if (!slides_last(job.model) || layers.front() != layers.back()) as_full_attention(job);
}

void as_mistral(Job& job) {
  as_decoder(job, BiasKeys::kNone);
  as_alike(job);
}

// Its rotary positions are scaled by lists, or not.
void as_phi3(Job& job) {
  const std::string lists = has_long_rope(job) ? job.model.rope_scaling : "";
  as_decoder(job, BiasKeys::kNone, {.rotary_fraction = job.llama.rotary_fraction});
  job.model.rope_scaling = lists;
  as_alike(job);
}

void as_qwen2(Job& job) {
  as_decoder(job, BiasKeys::kNone);
  job.model.qkv_bias = true;
  if (!slides_last(job.model)) as_full_attention(job);
}

void as_qwen3(Job& job) {
  as_decoder(job, BiasKeys::kAttention);
  job.model.qk_norm = true;
  if (!slides_last(job.model)) as_full_attention(job);
}

void as_smollm3(Job& job) {
  as_decoder(job, BiasKeys::kAll);
  for (const config::LayerAttention& layer : config::layer_attention(job.model))
    if (layer.window > 0) return as_full_attention(job);
}

constexpr std::array kLlamaRules = {Rule{"**", "**"}};

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

}  // namespace

FamilyFiles llama_hugging_face() {
  FamilyFiles files{
      .classes =
          {{DataSource::kText, "llama", "LlamaForCausalLM", as_llama, read_llama, write_llama},
           {DataSource::kText, "mistral", "MistralForCausalLM", as_mistral, read_mistral,
            write_mistral},
           {DataSource::kText, "phi3", "Phi3ForCausalLM", as_phi3, read_phi3, write_phi3},
           {DataSource::kText, "qwen2", "Qwen2ForCausalLM", as_qwen2, read_qwen2, write_qwen2},
           {DataSource::kText, "qwen3", "Qwen3ForCausalLM", as_qwen3, read_qwen3, write_qwen3},
           {DataSource::kText, "smollm3", "SmolLM3ForCausalLM", as_smollm3, read_smollm3,
            write_smollm3}},
      .names = {{.name = "LlamaForCausalLM",
                 .rules = kLlamaRules,
                 .idle = "*.rotary_emb.inv_freq,lm_head.weight",
                 .fits = [](const Job& job) { return !is_phi3(job); }},
                {.name = "Phi3ForCausalLM",
                 .rules = kPhi3Rules,
                 .idle = "*.rotary_emb.inv_freq,lm_head.weight",
                 .sign = "model.layers.0.self_attn.qkv_proj.weight"},
                // A decoder of which the tower is left alone.
                {.name = "Gemma3ForConditionalGeneration",
                 .rules = kBehindATowerRules,
                 .idle = "vision_tower.*,multi_modal_projector.*,language_model.lm_head.weight",
                 .sign = "language_model.model.embed_tokens.weight"}}};
  for (const HuggingFaceClass& relative : llama_relatives()) files.classes.push_back(relative);
  return files;
}

}  // namespace trireme::convert
