#include "trireme/models/family_blocks.h"

#include "trireme/base/error.h"
#include "trireme/models/action.h"
#include "trireme/models/arrcoc.h"
#include "trireme/models/clip.h"
#include "trireme/models/gpt.h"
#include "trireme/models/hnet.h"
#include "trireme/models/hvjepa.h"
#include "trireme/models/jepa.h"
#include "trireme/models/llama.h"
#include "trireme/models/probe.h"
#include "trireme/models/vit.h"
#include "trireme/models/vlm.h"

namespace trireme::models {

Blocks family_blocks(const config::Job& job, const arch::ModelSpec& spec, const Ranks& ranks) {
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

}  // namespace trireme::models
