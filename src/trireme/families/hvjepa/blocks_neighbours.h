// Attention of a clip's tokens to those around them that are most like them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/families/hvjepa/blocks_chunks.h"
#include "trireme/model/blocks/blocks.h"
#include "trireme/model/families/encoder.h"

namespace trireme::blocks {

// For each row: itself, then the `count` rows with the largest cosine to it among those around it (in time, row and
// column, at most 26). Among equals the lower row comes first; int64 [rows, 1 + count], -1 where there are fewer. No
// gradient. Shape of x: [rows, d].
at::Tensor neighbours(const at::Tensor& x, const GridRows& rows, std::int64_t count);

// The rows of a micro-batch that inputs from `first` on say: tokens and bounds; without them all tokens of all clips.
GridRows grid_rows(const std::vector<at::Tensor>& inputs, std::size_t first, std::int64_t rows,
                   const model::PatchGrid& grid);

// A transformer's block as EncoderBlock is one, whose rows attend to their neighbours, which are chosen by what the first
// norm gives, with rotary positions. Every tp rank has all of it. Inputs: x, and those of grid_rows.
class NeighboursBlock : public BoundBlock {
 public:
  NeighboursBlock(const config::Job& job, Ranks across)
      : BoundBlock(std::move(across)), job_(job) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  at::Tensor attend(const at::Tensor& qkv, const at::Tensor& seen, const GridRows& rows) const;

  config::Job job_;
};

}  // namespace trireme::blocks
