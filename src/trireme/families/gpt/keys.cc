// GPT-2.
#include "trireme/config/families.h"

namespace trireme::config {

FamilyInfo gpt_family() {
  FamilyInfo family = language_model({.family = "gpt", .fused_heads = true});
  family.about = "GPT-2";
  return family;
}

}  // namespace trireme::config
