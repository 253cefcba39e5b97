#include "trireme/model/blocks/families.h"

#include <array>

#include "trireme/model/blocks/gpt.h"
#include "trireme/model/blocks/hnet/hnet.h"
#include "trireme/model/blocks/jepa/action.h"
#include "trireme/model/blocks/jepa/hvjepa.h"
#include "trireme/model/blocks/jepa/jepa.h"
#include "trireme/model/blocks/jepa/probe.h"
#include "trireme/model/blocks/llama.h"
#include "trireme/model/blocks/neox.h"
#include "trireme/model/blocks/towers/arrcoc.h"
#include "trireme/model/blocks/towers/clip.h"
#include "trireme/model/blocks/towers/vit.h"
#include "trireme/model/blocks/towers/vlm.h"

namespace trireme::blocks {

std::span<const FamilyBlocks> family_blocks() {
  using config::Family;
  static constexpr std::array kBlocks = {
      FamilyBlocks{Family::kGpt, gpt_blocks},     FamilyBlocks{Family::kLlama, llama_blocks},
      FamilyBlocks{Family::kNeox, neox_blocks},   FamilyBlocks{Family::kVit, vit_blocks},
      FamilyBlocks{Family::kClip, clip_blocks},   FamilyBlocks{Family::kHnet, hnet_blocks},
      FamilyBlocks{Family::kVlm, vlm_blocks},     FamilyBlocks{Family::kArrcoc, arrcoc_blocks},
      FamilyBlocks{Family::kJepa, jepa_blocks},   FamilyBlocks{Family::kHvjepa, hvjepa_blocks},
      FamilyBlocks{Family::kProbe, probe_blocks}, FamilyBlocks{Family::kJepaAc, action_blocks},
  };
  return kBlocks;
}

}  // namespace trireme::blocks
