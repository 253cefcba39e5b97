// GPT-2.
#include "trireme/config/families.h"
#include "trireme/config/rules/shared_rules.h"
#include "trireme/config/rules/templates.h"

namespace trireme::config {
namespace {

std::vector<Rule> gpt_rules() {
  return joined({{{"plain-blocks",
                   refused("model.head_dim,model.qkv_bias,model.qk_norm,model.attention_layers",
                           "blocks of {model.family} do not use it",
                           "leave it out, or choose model.family=llama")},
                  {"no-rotary", refused("model.rope_theta,model.rope_scaling",
                                        "{model.family} has no rotary positions")}},
                 language_rules()});
}

}  // namespace

FamilyInfo gpt_family() {
  FamilyInfo family = language_model({.family = "gpt", .fused_heads = true});
  family.about = "GPT-2";
  family.rules = gpt_rules;
  return family;
}

}  // namespace trireme::config
