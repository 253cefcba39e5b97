#include "trireme/model/blocks/family_blocks.h"

#include "trireme/base/error.h"
#include "trireme/model/blocks/gpt.h"
#include "trireme/model/blocks/hnet/hnet.h"
#include "trireme/model/blocks/jepa/action.h"
#include "trireme/model/blocks/jepa/hvjepa.h"
#include "trireme/model/blocks/jepa/jepa.h"
#include "trireme/model/blocks/jepa/probe.h"
#include "trireme/model/blocks/llama.h"
#include "trireme/model/blocks/towers/arrcoc.h"
#include "trireme/model/blocks/towers/clip.h"
#include "trireme/model/blocks/towers/vit.h"
#include "trireme/model/blocks/towers/vlm.h"

namespace trireme::blocks {

Blocks family_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks) {
  switch (job.model.family) {
    case config::Family::kGpt: return gpt_blocks(job, spec, ranks);
    case config::Family::kLlama: return llama_blocks(job, spec, ranks);
    case config::Family::kJepa: return jepa_blocks(job, spec, ranks);
    case config::Family::kHvjepa: return hvjepa_blocks(job, spec, ranks);
    case config::Family::kProbe: return probe_blocks(job, spec, ranks);
    case config::Family::kJepaAc: return action_blocks(job, spec, ranks);
    case config::Family::kVit: return vit_blocks(job, spec, ranks);
    case config::Family::kClip: return clip_blocks(job, spec, ranks);
    case config::Family::kHnet: return hnet_blocks(job, spec, ranks);
    case config::Family::kArrcoc: return arrcoc_blocks(job, spec, ranks);
    case config::Family::kVlm: return vlm_blocks(job, spec, ranks);
    default: break;
  }
  TRIREME_CHECK(false, "model.family {}", static_cast<int>(job.model.family));
}

bool is_built(config::Family) { return true; }

}  // namespace trireme::blocks
