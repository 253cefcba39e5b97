// Blocks of decoders, where TRIREME_FAMILIES=decoders leaves out the other families.
#include <array>

#include "trireme/model/blocks/families.h"
#include "trireme/model/blocks/gpt.h"
#include "trireme/model/blocks/llama.h"
#include "trireme/model/blocks/neox.h"

namespace trireme::blocks {

std::span<const FamilyBlocks> family_blocks() {
  static constexpr std::array kBlocks = {FamilyBlocks{config::Family::kGpt, gpt_blocks},
                                         FamilyBlocks{config::Family::kLlama, llama_blocks},
                                         FamilyBlocks{config::Family::kNeox, neox_blocks}};
  return kBlocks;
}

}  // namespace trireme::blocks
