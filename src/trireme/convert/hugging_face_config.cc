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

// What each family calls the sizes that both have.
struct Keys {
  const char* layers;
  const char* hidden;
  const char* heads;
  const char* ffn;
  const char* seq_len;
  const char* norm_eps;
};
constexpr Keys kGpt2{"n_layer", "n_embd", "n_head", "n_inner", "n_positions", "layer_norm_epsilon"};
constexpr Keys kLlama{"num_hidden_layers",       "hidden_size",
                      "num_attention_heads",     "intermediate_size",
                      "max_position_embeddings", "rms_norm_eps"};

config::Model sizes(const JsonFields& fields, Family family, const Keys& keys) {
  return {.family = family,
          .layers = fields.integer(keys.layers, 1, kMost),
          .hidden = fields.integer(keys.hidden, 1, kMost),
          .heads = fields.integer(keys.heads, 1, kMost),
          .vocab = fields.integer("vocab_size", 1, kMost),
          .seq_len = fields.integer(keys.seq_len, 1, kMost)};
}

config::Model gpt2(const JsonFields& fields) {
  need(fields, "activation_function", "gelu_new");
  need(fields, "scale_attn_weights", true);
  need(fields, "scale_attn_by_inverse_layer_idx", false);
  config::Model model = sizes(fields, Family::kGpt, kGpt2);
  model.ffn = size_or(fields, kGpt2.ffn, 4 * model.hidden);
  model.norm_eps = number_or(fields, kGpt2.norm_eps, 1e-5);
  model.dropout = number_or(fields, "resid_pdrop", 0.1);
  return model;
}

config::Model llama(const JsonFields& fields) {
  need(fields, "hidden_act", "silu");
  need(fields, "attention_bias", false);
  need(fields, "mlp_bias", false);
  need(fields, "rope_scaling", nullptr);
  config::Model model = sizes(fields, Family::kLlama, kLlama);
  model.kv_heads = size_or(fields, "num_key_value_heads", model.heads);
  model.ffn = fields.integer(kLlama.ffn, 1, kMost);
  need(fields, "head_dim", model.hidden / model.heads);
  model.norm_eps = number_or(fields, kLlama.norm_eps, 1e-6);
  model.rope_theta = number_or(fields, "rope_theta", 10000);
  return model;
}

}  // namespace

std::string hugging_face_config(const config::Model& model) {
  const bool gpt = model.family == Family::kGpt;
  const Keys& keys = gpt ? kGpt2 : kLlama;
  Json json{{"architectures", {gpt ? "GPT2LMHeadModel" : "LlamaForCausalLM"}},
            {"model_type", gpt ? "gpt2" : "llama"},
            {keys.layers, model.layers},
            {keys.hidden, model.hidden},
            {keys.heads, model.heads},
            {keys.ffn, model.ffn},
            {keys.seq_len, model.seq_len},
            {keys.norm_eps, model.norm_eps}};
  if (gpt)
    json.update({{"activation_function", "gelu_new"},
                 {"attn_pdrop", model.dropout},
                 {"embd_pdrop", model.dropout},
                 {"resid_pdrop", model.dropout}});
  else
    json.update({{"num_key_value_heads", model.kv_heads},
                 {"rope_theta", model.rope_theta},
                 {"hidden_act", "silu"},
                 {"attention_bias", false},
                 {"mlp_bias", false}});
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
