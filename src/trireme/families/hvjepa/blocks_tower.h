// Blocks of H-V-JEPA's frozen tower; families/hvjepa/model_tower.h describes them.
#pragma once

#include "trireme/config/job.h"
#include "trireme/families/jepa/blocks_tower.h"
#include "trireme/model/blocks/blocks.h"

namespace trireme::blocks {

// The nodes of model::chunked_tower, in order.
Blocks chunked_tower_blocks(const config::Job& job, const model::Encoder& encoder,
                            VideoEmbed::Frames frames, VideoNorm::Gives gives, const Ranks& ranks);

}  // namespace trireme::blocks
