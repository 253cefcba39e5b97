// GPT-NeoX: what its blocks have of their own.
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/fields/field_lists.h"

namespace trireme::config {

std::vector<Field> neox_fields() {
  return {
      of_weights(number(KEY(neox.rotary_fraction),
                        "Share of each head's channels that rotary positions turn.", from(0, 1))),
      of_weights(boolean(KEY(neox.parallel_residual),
                         "Attention and feed-forward layers read the same activation, and their "
                         "results are added at once. false: one after the other.")),
      of_weights(choice(KEY(neox.activation), "Activation of the feed-forward layers.",
                        {{"gelu", Activation::kGelu}, {"gelu_tanh", Activation::kGeluTanh}})),
  };
}

}  // namespace trireme::config
