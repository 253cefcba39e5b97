// VICRegL between the two masked views of each clip, as a node.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "trireme/config/job.h"
#include "trireme/models/blocks.h"
#include "trireme/models/hvjepa.h"

namespace trireme::models {

// weight / 25 times the samples here times alpha global + (1 - alpha) local, over the samples of all data-parallel ranks,
// whose rows are gathered and the columns of whose covariances are shared out, so that the sum over ranks is the loss:
// forward and backward are collective. A view's embedding is what one learned query attends to
// of its chunks; local pairs are of chunks, by place relative to the clip and by feature. Inputs: the student's chunks
// [chunks, hidden] and their places. Parameters as arch::vicreg_params.
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
  // The fewest chunks that a view of the global batch has, or fewer.
  std::int64_t matches(const Sequences& views) const;

  config::Job job_;
};

}  // namespace trireme::models
