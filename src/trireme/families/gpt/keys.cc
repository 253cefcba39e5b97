// GPT-2.
#include "trireme/config/families.h"

namespace trireme::config {

FamilyInfo gpt_family() { return language_model(DecoderBlock::kGpt); }

}  // namespace trireme::config
