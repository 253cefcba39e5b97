// Blocks of H-V-JEPA's frozen tower; arch/chunk_tower.h describes them.
#pragma once

#include "trireme/config/job.h"
#include "trireme/models/blocks.h"
#include "trireme/models/clip_tower.h"

namespace trireme::models {

// The nodes of arch::chunked_tower, in order.
Blocks chunked_tower_blocks(const config::Job& job, const arch::Encoder& encoder,
                            ClipEmbed::Frames frames, ClipNorm::Gives gives, const Ranks& ranks);

}  // namespace trireme::models
