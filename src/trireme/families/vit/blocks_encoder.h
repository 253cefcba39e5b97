// Blocks of encoders; model/families/encoder.h describes them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/model/blocks/layered.h"
#include "trireme/model/families/encoder.h"
#include "trireme/ops/attention/mask.h"

namespace trireme::blocks {

// Rotary positions over several axes. Each axis has its own frequencies, 10000^(-i / (w / 2)) for i < w / 2, in w = 2
// floor(floor(head_dim / axes) / 2) channels of a head, axis by axis. The channels after them are not rotated. Shapes:
// cosines, sines [tokens, head_dim], one number a channel, and channel 2i is rotated with 2i + 1. With `halves` they are
// [tokens, head_dim / 2], one number a pair, and channel i is rotated with i + head_dim / 2.
struct AxialRotary {
  at::Tensor cosines;
  at::Tensor sines;
  bool halves = false;
};
enum class RotaryPairs {
  kExact,   // channels 2i and 2i + 1 turn by the i-th angle
  kCompat,  // as Meta's V-JEPA 2 weights were trained: channel j turns by angle j mod w / 2, which is no rotation
};
// positions: [tokens, axes], whole or not; computed in fp64, given in `type`.
AxialRotary axial_rotary(const at::Tensor& positions, std::int64_t head_dim, RotaryPairs pairs,
                         at::ScalarType type);
// Positions over row and column, as in Qwen3-VL's tower: head_dim / 4 frequencies 10000^(-i / (head_dim / 4)) of each,
// the row's first. They rotate channels of a head's first half with those of its second. Shape of positions: [tokens,
// 2].
AxialRotary plane_rotary(const at::Tensor& positions, std::int64_t head_dim, at::ScalarType type);
// x: [.., tokens, heads * head_dim].
at::Tensor rotate(const at::Tensor& x, const AxialRotary& rotary);

// Time, row and column of each token of a clip, int64 [tokens, 3], time first.
at::Tensor grid_positions(const model::PatchGrid& grid);
// Clips [samples, 3, frames, image, image] as patches [samples, tokens, features], features in the order colour, time,
// row, column.
at::Tensor patches(const at::Tensor& clips, const config::Vision& vision);

// How sequences look at themselves.
struct Sight {
  ops::Mask mask = ops::Mask::full();
  AxialRotary rotary{};  // undefined: none, as the encoder says
  // [tokens]: added to the scores of every key; undefined: 0. Only with rotary positions.
  at::Tensor key_bias{};
};

// x + attention(norm(x)), then x + mlp(norm(x)), on one rank or over tp ranks, between which x is the same. Layers as
// model::encoder_layers has them. Inputs: x, and what `look` makes the sight of: that of all rows, where cp ranks share
// these.
class EncoderBlock : public LayeredBlock {
 public:
  using Look = std::function<Sight(const std::vector<at::Tensor>& inputs)>;
  EncoderBlock(const model::Encoder& encoder, double norm_eps, Look look,
               const std::shared_ptr<const Across>& across);
};

// Look for whole sequences of one length: every sequence has this `sight`.
EncoderBlock::Look always(Sight sight);
// `look`, which is only called where the inputs after x are others than at the last call. It is for the blocks of one
// tower, which read the same of a micro-batch one after the other.
EncoderBlock::Look made_once(EncoderBlock::Look look);
// Look for packed ones: inputs[1] are positions [rows, axes], inputs[2] int32 prefix sums of lengths.
EncoderBlock::Look packed(std::int64_t head_dim, RotaryPairs pairs);

}  // namespace trireme::blocks
