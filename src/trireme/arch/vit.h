// Vision transformers that tell images apart, as data (Dosovitskiy et al. 2021).
#pragma once

#include "trireme/arch/per_rank.h"
#include "trireme/arch/spec.h"
#include "trireme/arch/training.h"
#include "trireme/config/job.h"

namespace trireme::arch {

// `job` is resolved, of family vit. Units embed, block.0 .. and head; reads images and labels, counts accuracy.
ModelSpec vit_spec(const config::Job& job, const PerRank& rank, const Training& training);

}  // namespace trireme::arch
