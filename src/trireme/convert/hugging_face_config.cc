#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/convert/hugging_face.h"
#include "trireme/formats/json_fields.h"
#include "trireme/formats/shown.h"

namespace trireme::convert {
namespace {

using config::Family;
using formats::JsonFields;

constexpr std::int64_t kMost = std::int64_t{1} << 40;

std::int64_t size_or(const JsonFields& fields, const char* key, std::int64_t otherwise) {
  return fields.has(key) && !fields.any(key).is_null() ? fields.integer(key, 1, kMost) : otherwise;
}

double number_or(const JsonFields& fields, const char* key, double otherwise) {
  return fields.has(key) ? fields.number(key) : otherwise;
}

// What changes the function and is not built here, unless it has this value or is absent.
void need(const JsonFields& fields, const char* key, const Json& value) {
  if (fields.has(key) && fields.any(key) != value && !fields.any(key).is_null())
    fail(ErrorKind::kData, "{}: {} is {}, this model family has {} only", fields.where(), key,
         formats::shown(fields.any(key).dump()), value.dump());
}

config::Model gpt2(const JsonFields& fields) {
  need(fields, "activation_function", "gelu_new");
  need(fields, "scale_attn_weights", true);
  need(fields, "scale_attn_by_inverse_layer_idx", false);
  config::Model model{.family = Family::kGpt,
                      .layers = fields.integer("n_layer", 1, kMost),
                      .hidden = fields.integer("n_embd", 1, kMost),
                      .heads = fields.integer("n_head", 1, kMost),
                      .vocab = fields.integer("vocab_size", 1, kMost),
                      .seq_len = fields.integer("n_positions", 1, kMost)};
  model.ffn = size_or(fields, "n_inner", 4 * model.hidden);
  model.norm_eps = number_or(fields, "layer_norm_epsilon", 1e-5);
  model.dropout = number_or(fields, "resid_pdrop", 0.1);
  return model;
}

config::Model llama(const JsonFields& fields) {
  need(fields, "hidden_act", "silu");
  need(fields, "attention_bias", false);
  need(fields, "mlp_bias", false);
  need(fields, "rope_scaling", nullptr);
  config::Model model{.family = Family::kLlama,
                      .layers = fields.integer("num_hidden_layers", 1, kMost),
                      .hidden = fields.integer("hidden_size", 1, kMost),
                      .heads = fields.integer("num_attention_heads", 1, kMost),
                      .vocab = fields.integer("vocab_size", 1, kMost),
                      .seq_len = fields.integer("max_position_embeddings", 1, kMost)};
  model.kv_heads = size_or(fields, "num_key_value_heads", model.heads);
  model.ffn = fields.integer("intermediate_size", 1, kMost);
  need(fields, "head_dim", model.hidden / model.heads);
  model.norm_eps = number_or(fields, "rms_norm_eps", 1e-6);
  model.rope_theta = number_or(fields, "rope_theta", 10000);
  return model;
}

}  // namespace

std::string hugging_face_config(const config::Model& model) {
  Json json;
  if (model.family == Family::kGpt)
    json = {{"architectures", {"GPT2LMHeadModel"}},
            {"model_type", "gpt2"},
            {"n_layer", model.layers},
            {"n_embd", model.hidden},
            {"n_head", model.heads},
            {"n_inner", model.ffn},
            {"n_positions", model.seq_len},
            {"layer_norm_epsilon", model.norm_eps},
            {"activation_function", "gelu_new"},
            {"attn_pdrop", model.dropout},
            {"embd_pdrop", model.dropout},
            {"resid_pdrop", model.dropout}};
  else
    json = {{"architectures", {"LlamaForCausalLM"}},
            {"model_type", "llama"},
            {"num_hidden_layers", model.layers},
            {"hidden_size", model.hidden},
            {"num_attention_heads", model.heads},
            {"num_key_value_heads", model.kv_heads},
            {"intermediate_size", model.ffn},
            {"max_position_embeddings", model.seq_len},
            {"rms_norm_eps", model.norm_eps},
            {"rope_theta", model.rope_theta},
            {"hidden_act", "silu"},
            {"attention_bias", false},
            {"mlp_bias", false}};
  json["vocab_size"] = model.vocab;
  json["tie_word_embeddings"] = model.tied;
  return json.dump(2) + "\n";
}

config::Model model_of_config(const std::string& text, const std::string& what) {
  const Json json = parse_json(text, what);
  const JsonFields fields(json, what);
  const std::string type = fields.string("model_type");
  if (type != "gpt2" && type != "llama")
    fail(ErrorKind::kData, "{}: model_type is {}; gpt2 and llama can be read", what,
         formats::shown(type));
  config::Model model = type == "gpt2" ? gpt2(fields) : llama(fields);
  // Where it is not said, each family has a default of its own.
  model.tied =
      fields.has("tie_word_embeddings") ? fields.boolean("tie_word_embeddings") : type == "gpt2";
  return model;
}

}  // namespace trireme::convert
