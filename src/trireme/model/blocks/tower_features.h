// A frozen tower whose features are kept on disk: of a micro-batch's tiles it computes those that are not there.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/exec/block.h"
#include "trireme/model/blocks/blocks.h"

namespace trireme::blocks {

// Caches the results of the tower's blocks, the first `count` of `blocks`, if the job has vlm.features. The first block then passes on the tiles without cached features, at least one. The last block and
// those that vlm.deepstack reads join all features; new ones are stored at the end. The key of an entry is the tile's
// pixels and the tower: its weights, its section of the job, compute type, device and tp ranks. Tiles are computed one
// by one, so that cached features have the bits of computed ones. The first micro-batch of a process is always
// computed, since weights are hashed as they are bound for it. The ranks of a tp group agree on what is missing, and
// the first of them writes.
void keep_features(const config::Job& job, std::size_t count, const Ranks& ranks, Blocks& blocks);

// Damaged entries that were recomputed, each with file and cause; empty for a model without vlm.features.
std::vector<std::string> damaged_features(const exec::Model& model);

}  // namespace trireme::blocks
