// GPT-2, GPT-NeoX, Llama and the decoders that differ little from it: Mistral, Phi-3, Qwen2, Qwen3, SmolLM3.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/checkpoint/convert/config_llama.h"
#include "trireme/config/head_width.h"
#include "trireme/config/layer_attention.h"
#include "trireme/formats/shown.h"

namespace trireme::convert {

using config::Job;
using config::LayerAttention;
using config::Model;
using formats::JsonFields;

namespace {

constexpr std::array kGpt2Sizes = {
    Size<Model>{"n_layer", &Model::layers, 0, kMostLayers}, Size<Model>{"n_embd", &Model::hidden},
    Size<Model>{"n_head", &Model::heads}, Size<Model>{"n_positions", &Model::seq_len},
    Size<Model>{"vocab_size", &Model::vocab}};

// Names of GELU, and of its approximation by a tanh.
constexpr std::string_view kExactGelu = "gelu";
constexpr std::array<std::string_view, 3> kTanhGelus = {"gelu_new", "gelu_fast",
                                                        "gelu_pytorch_tanh"};

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
                         double* sliding_theta) {
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
  read_rope(fields, model, sliding_theta);
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

bool slides_last(const Model& model) {
  const std::vector<LayerAttention> layers = config::layer_attention(model);
  const auto first = std::ranges::find_if_not(
      layers, [](const LayerAttention& layer) { return layer == LayerAttention{}; });
  return std::all_of(first, layers.end(), [&](const LayerAttention& layer) {
    return layer.window > 0 && layer == *first;
  });
}

void read_gpt2(const JsonFields& fields, Job& job) {
  need(fields, "activation_function", "gelu_new");
  need(fields, "scale_attn_weights", true);
  need(fields, "scale_attn_by_inverse_layer_idx", false);
  read_sizes(fields, kGpt2Sizes, job.model);
  need_multiple(fields, {"n_embd", job.model.hidden}, {"n_head", job.model.heads});
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

void read_neox(const JsonFields& fields, Job& job) {
  need(fields, "attention_bias", true);
  for (const char* key : {"hidden_dropout", "attention_dropout"}) need(fields, key, 0);
  Model& model = job.model;
  read_sizes(fields, kLlamaSizes, model);
  need_multiple(fields, {"hidden_size", model.hidden}, {"num_attention_heads", model.heads});
  model.norm_eps = number_or(fields, "layer_norm_eps", 1e-5);
  model.tied = fields.has("tie_word_embeddings") && fields.boolean("tie_word_embeddings");
  model.rope_theta = number_or(fields, "rotary_emb_base", number_or(fields, "rope_theta", 10000));
  need(fields, "rope_scaling", nullptr);
  config::Neox& neox = job.neox;
  neox.rotary_fraction =
      number_or(fields, "rotary_pct", number_or(fields, "partial_rotary_factor", 0.25));
  if (says(fields, "rope_parameters")) {
    const JsonFields rope(fields.object("rope_parameters"), fields.where() + ": rope_parameters");
    need(rope, "rope_type", "default");
    model.rope_theta = number_or(rope, "rope_theta", model.rope_theta);
    neox.rotary_fraction = number_or(rope, "partial_rotary_factor", neox.rotary_fraction);
  }
  neox.parallel_residual =
      !fields.has("use_parallel_residual") || fields.boolean("use_parallel_residual");
  const std::string activation = fields.has("hidden_act") ? fields.string("hidden_act") : "gelu";
  const bool tanh = std::ranges::find(kTanhGelus, activation) != kTanhGelus.end();
  if (!tanh && activation != kExactGelu)
    fail(ErrorKind::kData, "{}: hidden_act is {}; family neox has {} and {}", fields.where(),
         formats::shown(activation), kExactGelu, fmt::join(kTanhGelus, ", "));
  neox.activation = tanh ? config::Activation::kGeluTanh : config::Activation::kGelu;
}

void write_neox(const Job& job, Json& json) {
  const Model& model = job.model;
  const bool tanh = job.neox.activation == config::Activation::kGeluTanh;
  write_sizes(json, kLlamaSizes, model);
  json.update({{"layer_norm_eps", model.norm_eps},
               {"hidden_act", tanh ? kTanhGelus.front() : kExactGelu},
               {"rotary_pct", job.neox.rotary_fraction},
               {"rotary_emb_base", model.rope_theta},
               {"use_parallel_residual", job.neox.parallel_residual},
               {"attention_bias", true},
               {"tie_word_embeddings", model.tied}});
}

void read_llama(const JsonFields& fields, Job& job) {
  need(fields, "hidden_act", kSilu);
  need(fields, "attention_bias", false);
  need(fields, "mlp_bias", false);
  read_rotary_decoder(fields, {}, job.model);
}

void write_llama(const Job& job, Json& json) {
  write_rotary_decoder(job.model, json);
  json.update({{"attention_bias", false}, {"mlp_bias", false}});
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

// Llama with fused layers; written as Llama or Mistral.
void read_phi3(const JsonFields& fields, Job& job) {
  need(fields, "hidden_act", kSilu);
  need(fields, "attention_bias", false);
  for (const char* key : {"attention_dropout", "embd_pdrop", "resid_pdrop"}) need(fields, key, 0);
  read_rotary_decoder(fields, {}, job.model);
  job.model.norm_eps = number_or(fields, "rms_norm_eps", 1e-5);
  if (says(fields, "sliding_window"))
    job.model.attention_layers = config::print(
        sliding_layers(fields, job.model, fields.integer("sliding_window", 1, kMostSize), all));
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
  need(fields, "attention_bias", false);
  read_rotary_decoder(fields, kQwen3, job.model);
  read_later_sliding(fields, job.model);
}

void write_qwen3(const Job& job, Json& json) {
  write_rotary_decoder(job.model, json);
  write_later_sliding(job.model, json);
  json["attention_bias"] = false;
}

void read_smollm3(const JsonFields& fields, Job& job) {
  need(fields, "hidden_act", kSilu);
  need(fields, "attention_bias", false);
  need(fields, "mlp_bias", false);
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
  json.update({{"attention_bias", false},
               {"mlp_bias", false},
               {"use_sliding_window", false},
               {"no_rope_layers", rotated}});
}

}  // namespace trireme::convert
