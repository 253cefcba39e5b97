#include "trireme/families/hvjepa/blocks_tower.h"

#include "trireme/families/hnet/model.h"
#include "trireme/families/hvjepa/blocks.h"
#include "trireme/families/hvjepa/blocks_neighbours.h"
#include "trireme/families/hvjepa/blocks_read_out.h"
#include "trireme/families/hvjepa/model.h"
#include "trireme/ops/linear.h"

namespace trireme::blocks {
namespace {

// Inputs: features of chunks [chunks, hidden], the trees of their clips [clips, tokens, columns], and the tokens
// [clips, tokens, chunk.hidden] if a layer of the first parameter adds them. Writes features of tokens, [clips, tokens,
// hidden], for targets `normalised`.
class ReadOut : public BoundBlock {
 public:
  ReadOut(int parts, VideoNorm::Gives gives, Ranks across)
      : BoundBlock(std::move(across)), parts_(parts), gives_(gives) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override {
    const at::ScalarType type = inputs[0].scalar_type();
    const Forest forest = unpacked_trees(inputs[1].flatten(0, 1), parts_);
    at::Tensor x = read_out(inputs[0].to(statistics_type(type)), forest);
    if (gives_ == VideoNorm::Gives::kNormalised) x = normalised(x);
    x = x.to(type).view({inputs[1].size(0), inputs[1].size(1), -1});
    if (params() == 0) return {x};
    return {x + ops::linear(inputs[2], param(0), {}, context.weight_gradients)};
  }

 private:
  int parts_;
  VideoNorm::Gives gives_;
};

}  // namespace

Blocks chunked_tower_blocks(const config::Job& job, const model::Encoder& encoder,
                            VideoEmbed::Frames frames, VideoNorm::Gives gives, const Ranks& ranks) {
  // The layers that make chunks are whole on every tp rank.
  const Ranks alone = std::make_shared<Across>(job.model);
  config::Job clip = job;  // what the tower sees as one
  if (frames == VideoEmbed::Frames::kApart) clip.vision.frames = job.vision.tubelet;
  const double eps = job.vision.norm_eps;
  Blocks blocks;
  blocks.push_back(std::make_unique<VideoEmbed>(job.vision, frames, alone));
  for (std::int64_t layer = 0; layer < job.chunk.layers; ++layer)
    blocks.push_back(std::make_unique<NeighboursBlock>(clip, alone));
  blocks.push_back(frozen_chunks(clip, alone));
  const EncoderBlock::Look look = chunk_look(job);
  model::Encoder chunks = encoder;
  chunks.packed = chunks.key_bias = true;
  for (std::int64_t layer = 0; layer < job.vision.layers; ++layer)
    blocks.push_back(std::make_unique<EncoderBlock>(chunks, eps, look, ranks));
  blocks.push_back(std::make_unique<VideoNorm>(eps, VideoNorm::Gives::kFeatures, ranks));
  blocks.push_back(
      std::make_unique<ReadOut>(model::exact_parts(job.precision.compute), gives, alone));
  return blocks;
}

}  // namespace trireme::blocks
