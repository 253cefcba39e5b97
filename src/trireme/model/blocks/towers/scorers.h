// What regions of an image are worth to a question: three scores, the balance between them and the budget shared out.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/config/job.h"
#include "trireme/model/blocks/allocation.h"
#include "trireme/model/blocks/blocks.h"

namespace trireme::blocks {

Levels levels_of(const config::Arrcoc& arrcoc);

// What a region's scores are made of, computed from its image alone, in the type of the image. Of the texture one group of
// channels is there at a time, and none is kept: no gradient goes back to pixels.
struct RegionFacts {
  at::Tensor statistics;  // mean and deviation of the texture's channels, [b, regions, 26]
  at::Tensor entropy;     // of luma in 32 bins, of the most there can be, [b, regions, 1]
  at::Tensor
      salience;  // edges, difference from regions around, nearness to the middle, [b, regions, 3]
};
RegionFacts region_facts(const at::Tensor& images, const config::Arrcoc& arrcoc);

// Inputs: noise [b, regions], images [b, 3, side, side], the embedded question [b, d] and, of pictures that differ in
// size, these; learned allocation reads all but the noise.
// Writes what share of the tokens above the least each region is worth, [b, regions], through which gradients come
// back, the levels that it gets and, where the job charges for tokens, what an answer's token costs each image
// beside its loss, [b]. Scores are fp32 at least, the allocation is fp64.
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
