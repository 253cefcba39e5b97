// Files of GPT2LMHeadModel.
#include <array>

#include "trireme/checkpoint/convert/config_classes.h"
#include "trireme/checkpoint/convert/families.h"

namespace trireme::convert {

using config::DataSource;
using config::Job;
using config::Model;
using formats::JsonFields;

namespace {

constexpr std::array kGpt2Sizes = {
    Size<Model>{"n_layer", &Model::layers, 0, kMostLayers}, Size<Model>{"n_embd", &Model::hidden},
    Size<Model>{"n_head", &Model::heads}, Size<Model>{"n_positions", &Model::seq_len},
    Size<Model>{"vocab_size", &Model::vocab}};

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

constexpr std::array kGptRules = {
    Rule{"transformer.h.*.attn.c_attn.weight", "transformer.h.*.attn.c_attn.weight", Form::kTurned},
    Rule{"transformer.h.*.attn.c_proj.weight", "transformer.h.*.attn.c_proj.weight", Form::kTurned},
    Rule{"transformer.h.*.mlp.*.weight", "transformer.h.*.mlp.*.weight", Form::kTurned},
    Rule{"**", "**"},
};

}  // namespace

FamilyFiles gpt_hugging_face() {
  return {
      .classes = {{DataSource::kText, "gpt2", "GPT2LMHeadModel", no_choice, read_gpt2, write_gpt2}},
      .names = {{.name = "GPT2LMHeadModel",
                 .rules = kGptRules,
                 .bare = "transformer.",
                 .idle = "*.attn.bias,*.attn.masked_bias,lm_head.weight"}}};
}

}  // namespace trireme::convert
