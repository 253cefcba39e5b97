// Dynamic chunking (Hwang, Wang and Gu 2025): which positions begin a chunk, and how what was computed of chunks comes back
// to positions. Rows are packed sequences, `starts` [rows] being 1 where one begins.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/families/hnet/blocks_scan.h"

namespace trireme::blocks {

// Rows of length 1, as near as that goes for what is 0.
at::Tensor direction(const at::Tensor& x);

struct Routing {
  at::Tensor
      p;  // [rows], in [0, 1]: how far a row is from the one before; 1 where a sequence begins
  at::Tensor boundary;  // bool [rows]: p > 0.5
  at::Tensor last;      // [1, d]: the direction of query x of the last row
};
// p = (1 - cos(query x_{t-1}, key x_t)) / 2. `x`: [rows, d]; `query`, `key`: [d, d]. `before` is `last` of the rows
// before these in their sequence, undefined where there are none.
Routing route(const at::Tensor& x, const at::Tensor& query, const at::Tensor& key,
              const Sequences& sequences, const at::Tensor& before = {});

// Which rows begin a chunk, int64 [chunks], and which chunk a row is in, int64 [rows]. `boundary` is not 0 there.
at::Tensor chunk_rows(const at::Tensor& boundary);
at::Tensor chunk_of_rows(const at::Tensor& boundary);

// Chunks, [chunks, d], smoothed by the router's confidence: y_k = (1 - p_k) y_{k-1} + p_k z_k, from 0 in each sequence.
// p [chunks] is clamped to [1e-4, 1 - 1e-4]; `state` as in scan().
at::Tensor smoothed(const at::Tensor& z, const at::Tensor& p, const Sequences& sequences,
                    at::Tensor* state = nullptr);

// Confidence of the router, p where a chunk begins and else 1 - p, as a factor of value 1. Its gradient is that of the
// confidence (a straight-through estimator).
at::Tensor straight_through_confidence(const at::Tensor& p, const at::Tensor& boundary);

// Ratio loss of each sequence, N/(N-1) ((N-1) F G + (1-F)(1-G)), [sequences]. F is its share of boundaries, without a
// gradient, G its mean of p.
at::Tensor ratio_losses(const at::Tensor& p, const at::Tensor& boundary, const Sequences& sequences,
                        double ratio);

// A number in fp32 as `parts` of a narrower type, [rows] -> [rows, parts], each what those before it lost; and back.
// Gradients go through the first.
at::Tensor in_parts(const at::Tensor& p, int parts, at::ScalarType type);
at::Tensor from_parts(const at::Tensor& parts);

}  // namespace trireme::blocks
