// Rotary positions and dropout.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace trireme::ops {

// Cosines and sines of position * frequency, times `amplitude`: two tensors [positions, frequencies] of type `type`,
// computed in fp64.
struct RotaryTable {
  at::Tensor cosines;
  at::Tensor sines;
  // The rows of these positions, int64 [tokens]; itself if undefined.
  RotaryTable at(const at::Tensor& positions) const;
  RotaryTable to(at::Device device) const { return {cosines.to(device), sines.to(device)}; }
};
RotaryTable rotary_table(std::int64_t positions, std::span<const double> frequencies,
                         double amplitude, at::ScalarType type);

// Rotates every head of x, [samples, tokens, heads * head_dim], by its token's position 0 .. tokens-1. Pairs are (i, i
// + head_dim / 2), as in Hugging Face's Llama (Su et al. 2021). Keeps nothing of x. The table has x's type, or fp32 for
// bf16, and at least `tokens` positions.
at::Tensor rotary(const at::Tensor& x, const RotaryTable& table);

// Rotates channels 2i and 2i + 1 of every head of x, [samples, tokens, heads * head_dim], by its token's position. The
// table has a cosine and a sine for each channel, [positions, head_dim]: those of a pair may differ, as in V-JEPA 2.
// Rows of x may be apart. Keeps nothing of x.
at::Tensor rotary_pairs(const at::Tensor& x, const RotaryTable& table);

// Dropout: each element is zeroed with probability p, in [0, 1), and the rest scaled by 1 / (1 - p), as a function of
// key and place alone. The tensor may have only some rows of the whole [.., d], given by `rows`, int64 with one number
// a row. It may also have only some columns: those from `first` on, of `columns`.
struct Noise {
  double p = 0;
  std::uint64_t key = 0;
  at::Tensor rows{};         // undefined: from the first one on
  std::int64_t columns = 0;  // 0: x has them all
  std::int64_t first = 0;
};
// For use inside of ops, hidden from autograd. Its own backward.
at::Tensor dropped(const at::Tensor& x, const Noise& noise);

// Zeroes each element with probability p and scales the rest by 1 / (1 - p). The choice is a function of key and
// position in x alone; nothing is kept for backward. p is in [0, 1).
//
// If x has only some rows of [.., d], `rows`, int64 with one number a row, gives their indices: the choice is that of
// the whole.
at::Tensor dropout(const at::Tensor& x, double p, std::uint64_t key, const at::Tensor& rows = {});

}  // namespace trireme::ops
