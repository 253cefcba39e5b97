// Results of a clip's chunks, returned to its tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/families/hvjepa/blocks_chunks.h"

namespace trireme::blocks {

// Rows of chunks, z [chunks, d], smoothed along the trees by the router's confidence at their beginning: y = p z + (1 -
// p) y'. Here y' belongs to the chunk that its first row would have joined; y = z where there is none before. On one
// row and column a frame it equals blocks::smoothed() on a line, except for the beginning of a line and the clamping of
// p.
at::Tensor smoothed(const at::Tensor& z, const Forest& forest);

// Smoothed row of the chunk of every row, [rows, d].
at::Tensor read_out(const at::Tensor& z, const Forest& forest);

// A forest of whole clips as rows of numbers in `type`, [rows, model::tree_columns], and back.
at::Tensor packed_trees(const Forest& forest, int parts, at::ScalarType type);
Forest unpacked_trees(const at::Tensor& packed, int parts);

}  // namespace trireme::blocks
