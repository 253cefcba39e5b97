// Blocks of attentive probes; arch/probe.h describes them.
#pragma once

#include "trireme/config/job.h"
#include "trireme/models/blocks.h"

namespace trireme::models {

Blocks probe_blocks(const config::Job& job, const arch::ModelSpec& spec, const Ranks& ranks);

}  // namespace trireme::models
