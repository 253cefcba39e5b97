// GPT-2.
#include "trireme/config/families.h"

namespace trireme::config {

FamilyInfo gpt_family() {
  FamilyInfo family = language_model(DecoderBlock::kGpt);
  family.about = "GPT-2";
  return family;
}

}  // namespace trireme::config
