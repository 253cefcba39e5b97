// GPT-NeoX and Pythia.
#include <vector>

#include "trireme/config/families.h"
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/rules/shared_rules.h"

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
namespace {

std::vector<Rule> neox_rules() {
  return joined({language_rules(), {{"rotated-channels", [](const Job& job) {
                                       check_rotated(job.model, "neox.rotary_fraction",
                                                     job.neox.rotary_fraction);
                                     }}}});
}

}  // namespace

FamilyInfo neox_family() {
  FamilyInfo family = language_model({.family = "neox", .rotary = true});
  family.about = "GPT-NeoX, Pythia";
  family.keys =
      "model.layers,model.hidden,model.heads,model.kv_heads,model.ffn,model.vocab,model.seq_len,"
      "model.tied,model.norm_eps,model.rope_theta,model.init_std,neox.*";
  family.rules = neox_rules;
  family.fp16_on_cpu = false;
  return family;
}

}  // namespace trireme::config
