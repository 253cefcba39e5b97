// Llama and the models that differ little from it.
#include <algorithm>
#include <vector>

#include "trireme/config/families.h"
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/layer_attention.h"
#include "trireme/config/rules/shared_rules.h"
#include "trireme/config/rules/templates.h"
#include "trireme/families/llama/keys_decoder.h"

namespace trireme::config {

std::vector<Field> llama_fields() {
  constexpr double kMost = 1e6;
  return {
      of_weights(choice(KEY(llama.norms),
                        "RMS norms of a block: before attention and feed-forward layers (Llama), "
                        "after them (OLMo 2), or both (Gemma 3).",
                        {{"before", NormPlaces::kBefore},
                         {"after", NormPlaces::kAfter},
                         {"both", NormPlaces::kBoth}})),
      of_weights(boolean(KEY(llama.gains_from_one), "Norms multiply by 1 + gain (Gemma 3).")),
      of_weights(boolean(KEY(llama.whole_qk_norm),
                         "model.qk_norm is over the channels of all heads of a token together "
                         "(OLMo 2).")),
      of_weights(
          choice(KEY(llama.gate),
                 "Activation of the gate in the feed-forward layers; gelu_tanh is Gemma's.",
                 {{"silu", GateActivation::kSilu}, {"gelu_tanh", GateActivation::kGeluTanh}})),
      of_weights(number(KEY(llama.sliding_theta),
                        "model.rope_theta of layers with a window, without model.rope_scaling "
                        "(Gemma 3, OLMo 3). 0: both as in other layers.",
                        from(0, 1e9))),
      of_weights(number(KEY(llama.attention_multiplier),
                        "Factor of attention's scores (Granite). 0: 1 / sqrt(width of a head).",
                        from(0, kMost))),
      of_weights(number(KEY(llama.embedding_multiplier),
                        "Factor of the embedding's result, rounded to its type (Gemma 3: "
                        "sqrt(hidden); Granite).",
                        above(0, kMost))),
      of_weights(number(KEY(llama.residual_multiplier),
                        "Factor of what attention and feed-forward layers add (Granite).",
                        above(0, kMost))),
      of_weights(
          number(KEY(llama.logits_divisor), "Divides the logits (Granite).", above(0, kMost))),
      of_weights(number(KEY(llama.attention_cap),
                        "Soft cap c of attention's scores: a score z becomes c tanh(z / c) before "
                        "the mask (Gemma 2: 50). 0: no cap.",
                        from(0, kMost))),
      of_weights(number(KEY(llama.logits_cap),
                        "Soft cap c of the logits: a logit z becomes c tanh(z / c) (Gemma 2: 30). "
                        "0: no cap.",
                        from(0, kMost))),
      of_weights(boolean(KEY(llama.output_bias),
                         "Bias of attention's output layer. model.qkv_bias is that of queries, "
                         "keys and values.")),
      of_weights(boolean(KEY(llama.feed_forward_bias),
                         "Biases of the three layers of the feed-forward part.")),
      of_weights(number(KEY(llama.rotary_fraction),
                        "Share of each head's channels that rotary positions turn (Phi-4-mini: "
                        "0.75).",
                        above(0, 1))),
  };
}
namespace {

bool slides(const Job& job) {
  return std::ranges::any_of(layer_attention(job.model),
                             [](const LayerAttention& layer) { return layer.window > 0; });
}

std::vector<Rule> llama_rules() {
  return joined(
      {language_rules(),
       {{"whole-qk-norm", refused("llama.whole_qk_norm with model.qk_norm=false",
                                  "it says how queries and keys are normed",
                                  "set model.qk_norm=true, or leave it out")},
        {"whole-gains", refused("llama.whole_qk_norm with llama.gains_from_one",
                                "no model has both", "leave one out")},
        {"sliding-base",
         refused("llama.sliding_theta", "it is the base of rotary frequencies and must be above 1",
                 "set one such as 10000, or leave it out for that of other layers"),
         [](const Job& job) { return job.llama.sliding_theta <= 1; }},
        {"sliding-layers",
         refused("llama.sliding_theta", "no layer has a window",
                 "give some one (model.attention_layers=5xsliding:512,full), or leave it out"),
         [](const Job& job) { return !slides(job); }},
        {"partial-rotation", [](const Job& job) {
           check_rotated(job.model, "llama.rotary_fraction", job.llama.rotary_fraction);
         }}}});
}

}  // namespace

FamilyInfo llama_family() {
  FamilyInfo family = language_model(kLlamaDecoder);
  family.about = "Llama, Mistral, Phi-3, Qwen, OLMo, Gemma 2 and 3, Granite";
  family.keys = "model.*,llama.*";
  family.rules = llama_rules;
  return family;
}

}  // namespace trireme::config
