// VICRegL between the two masked views of each clip, as a node.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/families/hvjepa/blocks.h"
#include "trireme/model/blocks/blocks.h"

namespace trireme::blocks {

// Matches of each clip: as many as the view of the global batch with the fewest chunks has, or fewer.
struct MatchCounts {
  std::int64_t by_place = 0;
  std::int64_t by_feature = 0;
};

// The loss is weight / 25 times a rank's share of the samples times alpha global + (1 - alpha) (local by place + local
// by feature). It covers the samples of all data-parallel ranks, whose rows are gathered. Products of covariances are
// distributed over ranks, and the sum over ranks is the loss. Forward and backward are collective. Samples that only
// fill up a batch are left out. The embedding of a view is the result of one learned query that attends to its chunks.
// Local matches are between chunks, by place relative to the clip and by feature. Inputs: the student's chunks [chunks,
// hidden] and their places. Parameters as model::vicreg_params.
class VicregLoss : public BoundBlock {
 public:
  VicregLoss(const config::Job& job, Ranks across) : BoundBlock(std::move(across)), job_(job) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  // [sequences, hidden] of chunks [chunks, hidden].
  at::Tensor pooled(const at::Tensor& x, const Sequences& sequences,
                    const exec::BlockContext& context) const;
  // Through the expander whose parameters begin at `first`.
  at::Tensor expanded(const at::Tensor& x, std::size_t first,
                      const exec::BlockContext& context) const;
  // The numbers of a sample that statistics are of, in one row: both views of the clip, then matches by place, then by
  // feature. Loss of each sample, 0 for an absent one. [samples, columns].
  at::Tensor compared(const std::vector<at::Tensor>& inputs, const Places& places,
                      const MatchCounts& counts, const exec::BlockContext& context) const;
  at::Tensor loss(const at::Tensor& samples, const MatchCounts& counts) const;

  config::Job job_;
};

}  // namespace trireme::blocks
