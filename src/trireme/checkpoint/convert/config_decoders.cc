// GPT-2, Llama, Qwen2 and Qwen3.
#include <array>

#include "trireme/checkpoint/convert/config_classes.h"
#include "trireme/config/head_width.h"

namespace trireme::convert {

using config::Job;
using config::Model;
using formats::JsonFields;

namespace {

constexpr std::array kGpt2Sizes = {
    Size<Model>{"n_layer", &Model::layers}, Size<Model>{"n_embd", &Model::hidden},
    Size<Model>{"n_head", &Model::heads}, Size<Model>{"n_positions", &Model::seq_len},
    Size<Model>{"vocab_size", &Model::vocab}};

constexpr std::array kLlamaSizes = {Size<Model>{"num_hidden_layers", &Model::layers},
                                    Size<Model>{"hidden_size", &Model::hidden},
                                    Size<Model>{"num_attention_heads", &Model::heads},
                                    Size<Model>{"intermediate_size", &Model::ffn},
                                    Size<Model>{"max_position_embeddings", &Model::seq_len},
                                    Size<Model>{"vocab_size", &Model::vocab}};

// Of the file, or as transformers 5 has them, of an object in it.
double theta_of(const JsonFields& fields) {
  need(fields, "rope_scaling", nullptr);
  const double theta = number_or(fields, "rope_theta", 10000);
  if (!says(fields, "rope_parameters")) return theta;
  const JsonFields rope(fields.object("rope_parameters"), fields.where() + ": rope_parameters");
  need(rope, "rope_type", "default");
  return number_or(rope, "rope_theta", theta);
}

// Common part of Llama and Qwen. `kv_heads` and `width` are the defaults of the class; 0 means as many as heads, and
// hidden / heads.
void read_rotary_decoder(const JsonFields& fields, std::int64_t kv_heads, std::int64_t width,
                         Model& model) {
  need(fields, "hidden_act", "silu");
  read_sizes(fields, kLlamaSizes, model);
  model.kv_heads = size_or(fields, "num_key_value_heads", kv_heads > 0 ? kv_heads : model.heads);
  const std::int64_t even = model.hidden / model.heads;
  const std::int64_t head_dim = size_or(fields, "head_dim", width > 0 ? width : even);
  model.head_dim = head_dim * model.heads == model.hidden ? 0 : head_dim;
  model.norm_eps = number_or(fields, "rms_norm_eps", 1e-6);
  model.rope_theta = theta_of(fields);
  model.tied = fields.has("tie_word_embeddings") && fields.boolean("tie_word_embeddings");
}

void write_rotary_decoder(const Model& model, Json& json) {
  write_sizes(json, kLlamaSizes, model);
  json.update({{"num_key_value_heads", model.kv_heads},
               {"head_dim", config::head_width(model)},
               {"rms_norm_eps", model.norm_eps},
               {"rope_theta", model.rope_theta},
               {"hidden_act", "silu"},
               {"tie_word_embeddings", model.tied}});
}

// As published: 32 key-value heads are what both classes of Qwen take where they are not said.
constexpr std::int64_t kQwenKeyValueHeads = 32, kQwen3Width = 128;

}  // namespace

void read_gpt2(const JsonFields& fields, Job& job) {
  need(fields, "activation_function", "gelu_new");
  need(fields, "scale_attn_weights", true);
  need(fields, "scale_attn_by_inverse_layer_idx", false);
  read_sizes(fields, kGpt2Sizes, job.model);
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

void read_llama(const JsonFields& fields, Job& job) {
  need(fields, "attention_bias", false);
  need(fields, "mlp_bias", false);
  read_rotary_decoder(fields, 0, 0, job.model);
}

void write_llama(const Job& job, Json& json) {
  write_rotary_decoder(job.model, json);
  json.update({{"attention_bias", false}, {"mlp_bias", false}});
}

void read_qwen2(const JsonFields& fields, Job& job) {
  need(fields, "use_sliding_window", false);
  read_rotary_decoder(fields, kQwenKeyValueHeads, 0, job.model);
}

void write_qwen2(const Job& job, Json& json) {
  write_rotary_decoder(job.model, json);
  json["use_sliding_window"] = false;
}

void read_qwen3(const JsonFields& fields, Job& job) {
  need(fields, "attention_bias", false);
  need(fields, "use_sliding_window", false);
  read_rotary_decoder(fields, kQwenKeyValueHeads, kQwen3Width, job.model);
}

void write_qwen3(const Job& job, Json& json) {
  write_rotary_decoder(job.model, json);
  json.update({{"attention_bias", false}, {"use_sliding_window", false}});
}

}  // namespace trireme::convert
