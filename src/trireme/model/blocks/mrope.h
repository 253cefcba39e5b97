// How queries and keys of decoders turn.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/config/job.h"
#include "trireme/config/rope.h"
#include "trireme/ops/pointwise.h"

namespace trireme::blocks {

// Rotary tables of a decoder's queries and keys, in layers that see everything before and in layers with a window. Those
// of queries have in them what multiplies scores.
struct DecoderTables {
  struct Both {
    ops::RotaryTable queries, keys;
  };
  DecoderTables() = default;
  // The same for all.
  DecoderTables(const ops::RotaryTable& all) : full{all, all}, sliding{all, all} {}
  Both full, sliding;
};
DecoderTables decoder_tables(const config::Job& job, at::Device device);

// Table of a resolved job's decoder, for positions 0 .. model.seq_len - 1.
ops::RotaryTable decoder_rotary(const config::Job& job, at::Device device);
// The same with other frequencies than the decoder's own, times a factor.
ops::RotaryTable decoder_rotary(const config::Job& job, const config::Rope& rope, at::Device device,
                                double factor = 1);

// Axis that rotates each frequency under M-RoPE, int64 [head_dim / 2]; undefined if the job has one position.
at::Tensor frequency_axes(const config::Job& job);

// A row for each token of positions [samples, tokens, 3], in which every frequency turns by its axis.
ops::RotaryTable by_axes(const ops::RotaryTable& table, const at::Tensor& positions,
                         const at::Tensor& axes);

// x [samples, tokens, ..] with every token rotated by a row of its own.
at::Tensor turned_each(const at::Tensor& x, const ops::RotaryTable& rows);

}  // namespace trireme::blocks
