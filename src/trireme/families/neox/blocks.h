// GPT-NeoX's blocks; model::neox_spec describes them.
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/blocks/blocks.h"

namespace trireme::blocks {

// One a node.
Blocks neox_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks);

}  // namespace trireme::blocks
