// What regions of an image are worth to a question: three scores, the balance between them and the budget shared out.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/config/job.h"
#include "trireme/models/allocation.h"
#include "trireme/models/blocks.h"

namespace trireme::models {

Levels levels_of(const config::Arrcoc& arrcoc);

// What a region's scores are made of, computed from its image alone, in the type of the image.
struct RegionFacts {
  at::Tensor statistics;  // mean and deviation of the texture's channels, [b, regions, 26]
  at::Tensor entropy;     // of luma in 32 bins, of the most there can be, [b, regions, 1]
  at::Tensor
      salience;  // edges, difference from regions around, nearness to the middle, [b, regions, 3]
};
RegionFacts region_facts(const at::Tensor& images, const config::Arrcoc& arrcoc);

// Inputs: noise [b, regions], images [b, 3, side, side] and the embedded question [b, d]; learned allocation reads the latter two.
// Writes what share of the tokens above the least each region is worth, [b, regions], through which gradients come
// back, and the levels that it gets. Scores are fp32 at least, the allocation is fp64.
class Scorers : public BoundBlock {
 public:
  Scorers(const config::Job& job, std::shared_ptr<const Across> across);
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  class Reader;
  struct Tension {
    at::Tensor z;          // [b, regions]
    at::Tensor deviation;  // of noise that explores, [b, 1]
  };
  at::Tensor scores(const RegionFacts& facts, const at::Tensor& question, Reader& next) const;
  Tension balance(const at::Tensor& scores, const at::Tensor& question, Reader& next) const;
  Tension tension(const std::vector<at::Tensor>& inputs) const;

  config::Arrcoc arrcoc_;
  at::ScalarType compute_;
};

}  // namespace trireme::models
