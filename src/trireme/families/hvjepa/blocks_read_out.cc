#include "trireme/families/hvjepa/blocks_read_out.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/where.h>

#include "trireme/families/hnet/blocks_chunking.h"

namespace trireme::blocks {

// Solves y = a + b y of the parent for all chunks at once. Every jump doubles the number of links, so that the number
// of jumps is the logarithm of the longest chain.
at::Tensor smoothed(const at::Tensor& z, const Forest& forest) {
  const at::Tensor first = chunk_rows(forest.boundary);
  const at::Tensor chunk = chunk_of_rows(forest.boundary).index_select(0, forest.root);
  const at::Tensor before = forest.nearest.index_select(0, first), alone = before < 0;
  const at::Tensor sure = forest.p.index_select(0, first).masked_fill(alone, 1).unsqueeze(1);
  at::Tensor parent = at::where(alone, at::arange(first.size(0), first.options()),
                                chunk.index_select(0, before.clamp_min(0)));
  at::Tensor y = sure * z, left = 1 - sure;
  for (std::int64_t reach = 1; reach < first.size(0); reach *= 2) {
    y = y + left * y.index_select(0, parent);
    left = left * left.index_select(0, parent);
    parent = parent.index_select(0, parent);
  }
  return y;
}

at::Tensor read_out(const at::Tensor& z, const Forest& forest) {
  const at::Tensor chunk = chunk_of_rows(forest.boundary).index_select(0, forest.root);
  return smoothed(z, forest).index_select(0, chunk);
}

at::Tensor packed_trees(const Forest& forest, int parts, at::ScalarType type) {
  const at::Tensor p = forest.p.detach();
  return at::cat(
      {in_parts(p, parts, type), in_parts(forest.nearest.to(p.scalar_type()), parts, type),
       forest.boundary.to(type).unsqueeze(1)},
      1);
}

Forest unpacked_trees(const at::Tensor& packed, int parts) {
  const at::Tensor boundary = packed.select(1, 2 * parts) > 0;
  const at::Tensor nearest = from_parts(packed.narrow(1, parts, parts)).to(at::kLong);
  return {.p = from_parts(packed.narrow(1, 0, parts)),
          .boundary = boundary,
          .root = chunk_roots(boundary, nearest),
          .nearest = nearest};
}

}  // namespace trireme::blocks
