// Blocks of H-V-JEPA; families/hvjepa/model.h describes them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/families/hvjepa/blocks_chunks.h"
#include "trireme/families/jepa/blocks.h"
#include "trireme/model/blocks/blocks.h"

namespace trireme::blocks {

// Data that accompanies chunks from node to node, as one value of model::place_columns columns.
struct Places {
  // Puts them side by side in `type`, centres in `parts` columns each.
  static at::Tensor packed(const PooledChunks& chunks, const at::Tensor& hidden, int parts,
                           at::ScalarType type);
  explicit Places(const at::Tensor& packed, int parts);

  at::Tensor bounds() const;  // int32 prefix sums of the sequences' chunks

  at::Tensor centroids;  // [chunks, 3]
  at::Tensor log_sizes;  // [chunks]
  at::Tensor
      hidden;  // [chunks, masks] of a teacher: 1 where a mask hides half of the chunk or more
  Sequences sequences;
  std::vector<bool>
      there;  // of each sequence whether its sample is there, or only fills up a batch
};

// 1 where at least half of a chunk's members are targets of a mask, [chunks, masks]. `ids` are these targets, sample *
// tokens + token, mask by mask within each sample, with the int32 prefix sums `bounds`.
at::Tensor hidden_chunks(const Forest& forest, const at::Tensor& ids, const at::Tensor& bounds);

// Packing by the places of a student's and its teacher's chunks. Contexts are all chunks of the student; targets are
// the teacher's chunks that a mask hides. `rows` are these among the teacher's chunks.
struct ChunkPacking {
  ChunkPacking(const Places& student, const Places& teacher);
  at::Tensor rows;
  Packing packing;

 private:
  ChunkPacking(const Places& student, const Places& teacher,
               const std::pair<at::Tensor, at::Tensor>& targets);
};

// A frozen tower's node tower.chunk, of whole clips (families/hvjepa/model_tower.h). Reads tokens.
std::unique_ptr<exec::Block> frozen_chunks(const config::Job& job, const Ranks& ranks);
// Chunks are seen at their centres, the larger the more. A node's second input are places.
EncoderBlock::Look chunk_look(const config::Job& job);

Blocks hvjepa_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks);

}  // namespace trireme::blocks
