// An H-Net's blocks; model::hnet_spec describes them, with what each binds.
#pragma once

#include "trireme/config/job.h"
#include "trireme/families/hnet/model.h"
#include "trireme/model/blocks/blocks.h"

namespace trireme::blocks {

// One a node.
Blocks hnet_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks);

}  // namespace trireme::blocks
