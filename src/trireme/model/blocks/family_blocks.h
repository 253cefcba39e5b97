// The blocks of a job's family. A build for decoders alone has no_families.cc in place of family_blocks.cc.
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/blocks/blocks.h"
#include "trireme/model/spec.h"

namespace trireme::blocks {

// One block for each node of `spec`, which describes `job`. Throws Error for a family that this build leaves out.
Blocks family_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks);

// Whether this build has the family's blocks.
bool is_built(config::Family family);

}  // namespace trireme::blocks
