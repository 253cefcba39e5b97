// Value of an image's regions for a question: three scores, the balance between them, and the allocation of the budget.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/config/job.h"
#include "trireme/families/arrcoc/blocks_allocation.h"
#include "trireme/model/blocks/blocks.h"

namespace trireme::blocks {

Levels levels_of(const config::Arrcoc& arrcoc);

// Inputs of a region's scores that depend on its image alone, in the type of the image. One group of the texture's
// channels exists at a time, and none is kept: pixels have no gradient.
struct RegionFacts {
  at::Tensor statistics;  // mean and deviation of the texture's channels, [b, regions, 26]
  at::Tensor entropy;     // of luma in 32 bins, of the most there can be, [b, regions, 1]
  at::Tensor
      salience;  // edges, difference from regions around, nearness to the middle, [b, regions, 3]
};
RegionFacts region_facts(const at::Tensor& images, const config::Arrcoc& arrcoc);

// Inputs: noise [b, regions], images [b, 3, side, side], the embedded question [b, d] and, for pictures that differ in
// size, their sizes. Learned allocation does not read the noise. Writes each region's share of the tokens above the
// least, [b, regions], through which gradients flow, and its level. Where the job charges for tokens, also each image's
// charge for a token of the answer in addition to the loss, [b]. Scores are at least fp32, the allocation is fp64.
class Scorers : public BoundBlock {
 public:
  Scorers(const config::Job& job, const plan::Node& node, std::shared_ptr<const Across> across);
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  class Reader;
  struct Tension {
    at::Tensor z;            // [b, regions]
    at::Tensor deviation{};  // of noise that explores, [b, 1]; undefined: none
    at::Tensor used{};       // share of the budget above the least, [b, 1]; undefined: all
  };
  at::Tensor scores(const RegionFacts& facts, const at::Tensor& question, Reader& next) const;
  Tension balance(const at::Tensor& scores, const at::Tensor& question, Reader& next) const;
  Tension tension(const std::vector<at::Tensor>& inputs) const;
  at::Tensor charge(const at::Tensor& counts, const at::Tensor& budget,
                    const exec::BlockContext& context) const;

  config::Arrcoc arrcoc_;
  bool charges_;
  std::int64_t steps_;
  at::ScalarType compute_;
};

}  // namespace trireme::blocks
