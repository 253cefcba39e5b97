// An H-Net's blocks; arch::hnet_spec describes them, with what each binds.
#pragma once

#include "trireme/arch/hnet.h"
#include "trireme/config/job.h"
#include "trireme/models/blocks.h"

namespace trireme::models {

// One a node.
Blocks hnet_blocks(const config::Job& job, const arch::ModelSpec& spec, const Ranks& ranks);

}  // namespace trireme::models
