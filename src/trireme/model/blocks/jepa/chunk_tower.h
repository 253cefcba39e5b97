// Blocks of H-V-JEPA's frozen tower; model/families/chunk_tower.h describes them.
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/blocks/blocks.h"
#include "trireme/model/blocks/towers/video_tower.h"

namespace trireme::blocks {

// The nodes of model::chunked_tower, in order.
Blocks chunked_tower_blocks(const config::Job& job, const model::Encoder& encoder,
                            VideoEmbed::Frames frames, VideoNorm::Gives gives, const Ranks& ranks);

}  // namespace trireme::blocks
