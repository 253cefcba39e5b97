// In what a model differs from Llama.
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/fields/field_lists.h"

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
  };
}

}  // namespace trireme::config
