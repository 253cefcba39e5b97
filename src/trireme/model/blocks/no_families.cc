// Blocks of GPT and Llama, where TRIREME_FAMILIES=decoders leaves out the other families.
#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/model/blocks/family_blocks.h"
#include "trireme/model/blocks/gpt.h"
#include "trireme/model/blocks/llama.h"

namespace trireme::blocks {

bool is_built(config::Family family) { return config::is_decoder(family); }

Blocks family_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks) {
  if (job.model.family == config::Family::kGpt) return gpt_blocks(job, spec, ranks);
  if (job.model.family == config::Family::kLlama) return llama_blocks(job, spec, ranks);
  fail(ErrorKind::kUsage,
       "model.family={}: this build, as ./dev quickstart makes it, trains the families gpt and "
       "llama; ./dev build adds "
       "the others (CMake: TRIREME_FAMILIES=all)",
       config::name(job.model.family));
}

}  // namespace trireme::blocks
