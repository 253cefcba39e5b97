// A frozen tower whose features are kept on disk: of a micro-batch's tiles it computes those that are not there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/exec/block.h"
#include "trireme/model/blocks/blocks.h"
#include "trireme/model/spec.h"

namespace trireme::blocks {

// Puts the tower's blocks, those of the nodes "vision.*" at the program's begin, behind vlm.features, if the job has it.
// Its first block then passes on the tiles that are not there, one at least, and its last and those that vlm.deepstack reads
// put all features together; those that are new are kept at the end. An entry is known by a tile's pixels and by the tower:
// its weights, its section of the job, the compute type, the device and the tp ranks, and tiles are computed one by one, so
// that what is read has the bits of what would be computed. The first micro-batch of a process is always computed, since
// weights are hashed as they are bound for it. The ranks of a tp group agree on what is missing, and the first of them writes.
void keep_features(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks,
                   Blocks& blocks);

// Entries that were found damaged and computed again, each with file and cause; of a model without vlm.features none.
std::vector<std::string> damaged_features(const exec::Model& model);

}  // namespace trireme::blocks
