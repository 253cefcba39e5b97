// Decoders that differ from Llama by what section `llama` of a job has: OLMo 2 and 3, Gemma 2 and 3, Granite.
#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/config/head_width.h"
#include "trireme/families/llama/hugging_face.h"

namespace trireme::convert {

using config::DataSource;
using config::Job;
using config::LayerAttention;
using config::Llama;
using config::Model;
using formats::JsonFields;

namespace {

constexpr std::int64_t kOlmoWindow = 4096, kOlmoInterval = 4;
constexpr const char* kGeluTanh = "gelu_pytorch_tanh";
// Of the class.
constexpr Defaults kGemma3{.kv_heads = 4, .width = 256, .tied = true, .theta = 1e6};
constexpr Defaults kGemma2{.kv_heads = 4, .width = 256, .tied = true};
constexpr double kGemmaLocalTheta = 1e4, kGemmaScoreCap = 50, kGemmaLogitsCap = 30;
constexpr std::int64_t kGemmaWindow = 4096, kGemmaInterval = 6, kGemmaScalar = 256;

// Of the layers with a window, 0 if none has.
std::int64_t window_of(const Model& model) {
  for (const LayerAttention& layer : config::layer_attention(model))
    if (layer.window > 0) return layer.window;
  return 0;
}

void write_layer_types(const Model& model, Json& json) {
  Json types = Json::array();
  for (const LayerAttention& layer : config::layer_attention(model))
    types.push_back(layer.window > 0 ? "sliding_attention" : "full_attention");
  json["layer_types"] = types;
}

// Every so many layers one sees everything before.
auto full_every(std::int64_t interval) {
  return [interval](std::int64_t layer) { return (layer + 1) % interval != 0; };
}

void read_olmo(const JsonFields& fields, Job& job) {
  need(fields, "hidden_act", kSilu);
  read_biases(fields, BiasKeys::kAttention, job);
  need(fields, "attention_dropout", 0);
  read_rotary_decoder(fields, {}, job.model, {.sliding_theta = &job.llama.sliding_theta});
  job.model.norm_eps = number_or(fields, "rms_norm_eps", 1e-5);
}

void write_olmo(const Job& job, Json& json) {
  write_rotary_decoder(job.model, json);
  write_biases(job, BiasKeys::kAttention, json);
  json.erase("head_dim");
}

// Whether all layers have rotary positions, and those with a window have the same.
bool slides_alike(const Model& model) {
  const std::int64_t window = window_of(model);
  return std::ranges::all_of(config::layer_attention(model), [&](const LayerAttention& layer) {
    return layer.rotary && (layer.window == 0 || layer.window == window);
  });
}

void read_olmo2(const JsonFields& fields, Job& job) {
  read_olmo(fields, job);
  job.llama.sliding_theta = 0;
}

void read_olmo3(const JsonFields& fields, Job& job) {
  read_olmo(fields, job);
  job.model.attention_layers = config::print(
      sliding_layers(fields, job.model, size_or(fields, "sliding_window", kOlmoWindow),
                     full_every(kOlmoInterval)));
  // Frequencies are scaled where a layer sees everything before (the report of OLMo 3).
  double& sliding = job.llama.sliding_theta;
  if (window_of(job.model) == 0 ||
      (job.model.rope_scaling.empty() && sliding == job.model.rope_theta))
    sliding = 0;
  else if (!job.model.rope_scaling.empty() && sliding == 0)
    sliding = job.model.rope_theta;
}

void write_olmo3(const Job& job, Json& json) {
  write_olmo(job, json);
  json["sliding_window"] = std::max(window_of(job.model), std::int64_t{1});
  write_layer_types(job.model, json);
}

// Keys of both Gemma 2 and 3.
void read_gemma(const JsonFields& fields, const Defaults& defaults, Job& job,
                const RopeKeys& rope = {}) {
  need(fields, "hidden_activation", kGeluTanh);
  read_biases(fields, BiasKeys::kAttention, job);
  need(fields, "attention_dropout", 0);
  need(fields, "use_bidirectional_attention", false);
  Model& model = job.model;
  read_rotary_decoder(fields, defaults, model, rope);
  job.llama.embedding_multiplier = std::sqrt(static_cast<double>(model.hidden));
  const std::int64_t scalar = size_or(fields, "query_pre_attn_scalar", kGemmaScalar);
  if (scalar != config::head_width(model))
    job.llama.attention_multiplier = 1 / std::sqrt(static_cast<double>(scalar));
}

void read_gemma_layers(const JsonFields& fields, Model& model,
                       const std::function<bool(std::int64_t)>& slides) {
  model.attention_layers = config::print(
      sliding_layers(fields, model, size_or(fields, "sliding_window", kGemmaWindow), slides));
}

// A cap of scores or logits: absent it is the class's, null there is none.
double cap_or(const JsonFields& fields, const char* key, double otherwise) {
  if (!fields.has(key)) return otherwise;
  return says(fields, key) ? fields.number(key) : 0;
}

void read_gemma2(const JsonFields& fields, Job& job) {
  read_gemma(fields, kGemma2, job);
  job.llama.attention_cap = cap_or(fields, "attn_logit_softcapping", kGemmaScoreCap);
  job.llama.logits_cap = cap_or(fields, "final_logit_softcapping", kGemmaLogitsCap);
  read_gemma_layers(fields, job.model, [](std::int64_t layer) { return layer % 2 == 0; });
}

void read_gemma3(const JsonFields& fields, Job& job) {
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"})
    need(fields, key, nullptr);
  Llama& own = job.llama;
  own.sliding_theta = number_or(fields, "rope_local_base_freq", kGemmaLocalTheta);
  read_gemma(fields, kGemma3, job, {.sliding_theta = &own.sliding_theta});
  const std::int64_t interval = size_or(fields, "sliding_window_pattern",
                                        size_or(fields, "_sliding_window_pattern", kGemmaInterval));
  read_gemma_layers(fields, job.model, full_every(interval));
  if (window_of(job.model) == 0) own.sliding_theta = 0;
}

// Whose text_config leaves out what its class has for defaults.
void read_gemma3_with_tower(const JsonFields& fields, Job& job) {
  Json text{{"vocab_size", 262208},
            {"hidden_size", 2304},
            {"num_hidden_layers", 26},
            {"intermediate_size", 9216},
            {"num_attention_heads", 8},
            {"num_key_value_heads", 4},
            {"max_position_embeddings", 131072}};
  text.update(fields.object("text_config"));
  if (fields.has("tie_word_embeddings") && !text.contains("tie_word_embeddings"))
    text["tie_word_embeddings"] = fields.boolean("tie_word_embeddings");
  read_gemma3(JsonFields(text, fields.where() + ": text_config"), job);
}

void write_gemma(const Job& job, Json& json) {
  const Model& model = job.model;
  write_rotary_decoder(model, json);
  write_biases(job, BiasKeys::kAttention, json);
  const double factor = job.llama.attention_multiplier;
  json.erase("hidden_act");
  json.update({{"hidden_activation", kGeluTanh},
               {"query_pre_attn_scalar",
                factor == 0 ? config::head_width(model) : std::llround(1 / (factor * factor))},
               {"sliding_window", std::max(window_of(model), std::int64_t{1})}});
  write_layer_types(model, json);
}

void write_gemma2(const Job& job, Json& json) {
  write_gemma(job, json);
  const auto cap = [](double value) { return value == 0 ? Json() : Json(value); };
  json["attn_logit_softcapping"] = cap(job.llama.attention_cap);
  json["final_logit_softcapping"] = cap(job.llama.logits_cap);
}

void write_gemma3(const Job& job, Json& json) {
  write_gemma(job, json);
  const double sliding = job.llama.sliding_theta;
  json["rope_local_base_freq"] = sliding == 0 ? job.model.rope_theta : sliding;
}

void read_granite(const JsonFields& fields, Job& job) {
  need(fields, "hidden_act", kSilu);
  read_biases(fields, BiasKeys::kAll, job);
  need(fields, "attention_dropout", 0);
  read_rotary_decoder(fields, {}, job.model);
  Llama& own = job.llama;
  own.embedding_multiplier = number_or(fields, "embedding_multiplier", 1);
  own.residual_multiplier = number_or(fields, "residual_multiplier", 1);
  own.attention_multiplier = number_or(fields, "attention_multiplier", 1);
  own.logits_divisor = number_or(fields, "logits_scaling", 1);
}

void write_granite(const Job& job, Json& json) {
  write_rotary_decoder(job.model, json);
  const Llama& own = job.llama;
  const double width = static_cast<double>(config::head_width(job.model));
  json.erase("head_dim");
  write_biases(job, BiasKeys::kAll, json);
  json.update({{"embedding_multiplier", own.embedding_multiplier},
               {"residual_multiplier", own.residual_multiplier},
               {"attention_multiplier",
                own.attention_multiplier == 0 ? 1 / std::sqrt(width) : own.attention_multiplier},
               {"logits_scaling", own.logits_divisor}});
}

// Of layers with a window, where those of others are scaled.
double unscaled_theta(const Job& job) {
  const bool scaled = !job.model.rope_scaling.empty() && !job.model.attention_layers.empty();
  return scaled ? job.model.rope_theta : 0;
}

void as_sliding(Job& job, Llama own) {
  as_decoder(job, BiasKeys::kAttention, own);
  if (!slides_alike(job.model)) as_full_attention(job);
}

void as_olmo3(Job& job) {
  as_sliding(job, {.norms = config::NormPlaces::kAfter, .whole_qk_norm = true});
  job.model.qk_norm = true;
  job.llama.sliding_theta = unscaled_theta(job);
}

void as_olmo2(Job& job) {
  as_full_attention(job);
  as_olmo3(job);
}

// The multiplier of attention's scores that a whole query_pre_attn_scalar says; one that is equal up to roundings stays.
double multiplier_there(double multiplier) {
  if (multiplier == 0) return 0;
  constexpr double kRounded = 1e-9;
  const double there = 1 / std::sqrt(std::round(1 / (multiplier * multiplier)));
  return std::abs(there - multiplier) <= kRounded * multiplier ? multiplier : there;
}

void as_gemma(Job& job, Llama own) {
  own.norms = config::NormPlaces::kBoth;
  own.gains_from_one = true;
  own.gate = config::GateActivation::kGeluTanh;
  own.attention_multiplier = multiplier_there(job.llama.attention_multiplier);
  own.embedding_multiplier = std::sqrt(static_cast<double>(job.model.hidden));
  as_sliding(job, own);
}

void as_gemma2(Job& job) {
  as_gemma(job, {.attention_cap = job.llama.attention_cap, .logits_cap = job.llama.logits_cap});
}

void as_gemma3(Job& job) {
  as_gemma(job, {.sliding_theta = job.llama.sliding_theta});
  job.model.qk_norm = true;
  if (job.llama.sliding_theta == 0) job.llama.sliding_theta = unscaled_theta(job);
}

void as_granite(Job& job) {
  const Llama own = job.llama;
  as_decoder(job, BiasKeys::kAll,
             {.attention_multiplier = own.attention_multiplier,
              .embedding_multiplier = own.embedding_multiplier,
              .residual_multiplier = own.residual_multiplier,
              .logits_divisor = own.logits_divisor});
  as_full_attention(job);
}

}  // namespace

std::vector<HuggingFaceClass> llama_relatives() {
  return {
      {DataSource::kText, "olmo2", "Olmo2ForCausalLM", as_olmo2, read_olmo2, write_olmo},
      {DataSource::kText, "olmo3", "Olmo3ForCausalLM", as_olmo3, read_olmo3, write_olmo3},
      {DataSource::kText, "gemma2", "Gemma2ForCausalLM", as_gemma2, read_gemma2, write_gemma2},
      {DataSource::kText, "gemma3_text", "Gemma3ForCausalLM", as_gemma3, read_gemma3, write_gemma3},
      {DataSource::kText, "gemma3", "Gemma3ForConditionalGeneration", as_gemma3,
       read_gemma3_with_tower, write_gemma3},
      {DataSource::kText, "granite", "GraniteForCausalLM", as_granite, read_granite,
       write_granite}};
}

}  // namespace trireme::convert
