// Files of GPTNeoXForCausalLM.
#include "trireme/families/llama/hugging_face.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/checkpoint/convert/families.h"
#include "trireme/formats/shown.h"

namespace trireme::convert {

using config::DataSource;
using config::Job;
using config::Model;
using formats::JsonFields;

namespace {

// Names of GELU, and of its approximation by a tanh.
constexpr std::string_view kExactGelu = "gelu";
constexpr std::array<std::string_view, 3> kTanhGelus = {"gelu_new", "gelu_fast",
                                                        "gelu_pytorch_tanh"};

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

constexpr std::array kNeoxRules = {
    Rule{"gpt_neox.layers.*.attention.query.*", "gpt_neox.layers.*.attention.query_key_value.*",
         Form::kQueries},
    Rule{"gpt_neox.layers.*.attention.key.*", "gpt_neox.layers.*.attention.query_key_value.*",
         Form::kKeys},
    Rule{"gpt_neox.layers.*.attention.value.*", "gpt_neox.layers.*.attention.query_key_value.*",
         Form::kValues},
    Rule{"**", "**"},
};

}  // namespace

FamilyFiles neox_hugging_face() {
  return {
      .classes = {{DataSource::kText, "gpt_neox", "GPTNeoXForCausalLM", no_choice, read_neox,
                   write_neox}},
      .names = {
          {.name = "GPTNeoXForCausalLM",
           .rules = kNeoxRules,
           .bare = "gpt_neox.",
           .idle =
               "*.attention.bias,*.attention.masked_bias,*.rotary_emb.inv_freq,embed_out.weight"}}};
}

}  // namespace trireme::convert
