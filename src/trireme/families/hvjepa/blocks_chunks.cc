#include "trireme/families/hvjepa/blocks_chunks.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <vector>

#include "trireme/families/hnet/blocks_chunking.h"
#include "trireme/families/vit/blocks_encoder.h"
#include "trireme/ops/linear.h"

namespace trireme::blocks {
namespace {

constexpr double kNone = -2;  // below every cosine

at::Tensor starts_of(const at::Tensor& bounds, std::int64_t rows) {
  const at::Tensor firsts = bounds.narrow(0, 0, bounds.size(0) - 1).to(at::kLong);
  return at::zeros({rows}, bounds.options().dtype(at::kInt)).index_fill(0, firsts, 1);
}

// Rows and, of each, which of its candidates is the nearest by the router's cosines.
struct NearestBefore {
  at::Tensor cosine;  // kNone where there is no candidate
  at::Tensor row;
};

NearestBefore nearest_before(const at::Tensor& x, const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& before) {
  const at::Tensor queries = direction(ops::linear(x, query)),
                   keys = direction(ops::linear(x, key));
  const at::Tensor others =
      queries.index_select(0, before.clamp_min(0).flatten()).view({x.size(0), before.size(1), -1});
  const at::Tensor cosines = (others * keys.unsqueeze(1)).sum(-1).masked_fill(before.lt(0), kNone);
  const auto [cosine, which] = cosines.max(1);
  return {.cosine = cosine, .row = before.gather(1, which.unsqueeze(1)).squeeze(1)};
}

// The largest of each sequence; what is alone comes first.
at::Tensor largest(const at::Tensor& p, const at::Tensor& alone, const Sequences& sequences,
                   std::int64_t ratio) {
  const at::Tensor order = p.detach() + alone.to(p.scalar_type());
  at::Tensor boundary = alone.clone();
  for (std::size_t s = 0; s + 1 < sequences.bounds.size(); ++s) {
    const std::int64_t first = sequences.bounds[s], rows = sequences.bounds[s + 1] - first;
    const at::Tensor sorted =
        std::get<1>(order.narrow(0, first, rows).sort(/*stable=*/true, 0, /*descending=*/true));
    boundary.index_fill_(0, sorted.narrow(0, 0, (rows + ratio - 1) / ratio) + first, true);
  }
  return boundary;
}

at::Tensor own_rows(const at::Tensor& like) { return at::arange(like.size(0), like.options()); }

Forest fixed_forest(const GridRows& rows, at::ScalarType type, std::int64_t ratio) {
  const at::Tensor before = rows.rows_at(before_offsets(rows.places.device())).select(1, 2);
  const at::Tensor boundary =
      before.lt(0).logical_or(rows.places.select(1, 2).remainder(ratio) == 0);
  return {.p = boundary.to(type),
          .boundary = boundary,
          .root = chunk_roots(boundary, before),
          .nearest = before};
}

// By two sorts, since what LibTorch 1.13 has for it is not final.
at::Tensor largest_of_chunks(const at::Tensor& scores, const at::Tensor& chunk,
                             std::int64_t chunks) {
  const at::Tensor ascending = std::get<1>(scores.sort(/*stable=*/true, 0, /*descending=*/false));
  const at::Tensor numbers = chunk.index_select(0, ascending);
  const at::Tensor by_chunk = ascending.index_select(
      0, std::get<1>(numbers.sort(/*stable=*/true, 0, /*descending=*/false)));
  const at::Tensor last = chunk.bincount({}, chunks).cumsum(0) - 1;
  return scores.index_select(0, by_chunk.index_select(0, last));
}

// Over the rows of each chunk.
at::Tensor softmax_of_chunks(const at::Tensor& scores, const at::Tensor& chunk,
                             std::int64_t chunks) {
  const at::Tensor largest = largest_of_chunks(scores.detach(), chunk, chunks);
  const at::Tensor powers = (scores - largest.index_select(0, chunk)).exp();
  const at::Tensor sums = at::zeros({chunks}, scores.options()).index_add(0, chunk, powers);
  return powers / sums.index_select(0, chunk);
}

}  // namespace

GridRows::GridRows(const at::Tensor& ids, const at::Tensor& bounds, const model::PatchGrid& grid)
    : sequences(starts_of(bounds.to(ids.device()), ids.size(0))), grid_(grid) {
  const at::Tensor own = ids.remainder(grid.tokens());
  places = grid_positions(grid).to(ids.device()).index_select(0, own);
  rows_ = at::full({sequences.count() * grid.tokens()}, -1, ids.options())
              .index_copy(0, sequences.number * grid.tokens() + own, own_rows(ids));
}

at::Tensor GridRows::rows_at(const at::Tensor& offsets) const {
  const at::Tensor there = places.unsqueeze(1) + offsets;
  const at::Tensor sizes = at::tensor({grid_.frames, grid_.rows, grid_.columns}, places.options());
  const at::Tensor inside = (there >= 0).logical_and(there < sizes).all(-1);
  const at::Tensor ids = (there.select(2, 0) * grid_.rows + there.select(2, 1)) * grid_.columns +
                         there.select(2, 2) + sequences.number.unsqueeze(1) * grid_.tokens();
  const at::Tensor found =
      rows_.index_select(0, ids.masked_fill(inside.logical_not(), 0).flatten()).view(ids.sizes());
  return found.masked_fill(inside.logical_not(), -1);
}

at::Tensor chunk_roots(const at::Tensor& boundary, const at::Tensor& nearest) {
  at::Tensor parent = at::where(boundary, own_rows(nearest), nearest);
  for (std::int64_t reach = 1; reach < parent.size(0); reach *= 2)
    parent = parent.index_select(0, parent);
  return parent;
}

at::Tensor before_offsets(at::Device device) {
  return at::tensor({-1, 0, 0, 0, -1, 0, 0, 0, -1}, at::kLong).view({3, 3}).to(device);
}

at::Tensor around_offsets(at::Device device) {
  std::vector<std::int64_t> offsets;
  for (std::int64_t i = 0; i < 27; ++i)
    if (i != 13) offsets.insert(offsets.end(), {i / 9 - 1, i / 3 % 3 - 1, i % 3 - 1});
  return at::tensor(offsets, at::kLong).view({26, 3}).to(device);
}

Forest forest(const at::Tensor& x, const at::Tensor& query, const at::Tensor& key,
              const GridRows& rows, const config::Chunk& chunk) {
  if (chunk.mode == config::ChunkMode::kFixed)
    return fixed_forest(rows, x.scalar_type(), chunk.ratio);
  const NearestBefore nearest =
      nearest_before(x, query, key, rows.rows_at(before_offsets(x.device())));
  const at::Tensor alone = nearest.row < 0;
  const at::Tensor p = ((1 - nearest.cosine) / 2).clamp(0, 1).masked_fill(alone, 1);
  const at::Tensor boundary = chunk.mode == config::ChunkMode::kTopK
                                  ? largest(p, alone, rows.sequences, chunk.ratio)
                                  : p.detach() > 0.5;
  return {.p = p,
          .boundary = boundary,
          .root = chunk_roots(boundary, nearest.row),
          .nearest = nearest.row};
}

PooledChunks pool(const at::Tensor& x, const Forest& forest, const GridRows& rows,
                  const PoolParams& params) {
  const at::Tensor first = chunk_rows(forest.boundary);
  const at::Tensor chunk = chunk_of_rows(forest.boundary).index_select(0, forest.root);
  const std::int64_t chunks = first.size(0);
  const at::Tensor x_root = x.index_select(0, first);
  const at::Tensor queries =
      ops::linear(x_root, params.query, params.query_bias).index_select(0, chunk);
  const std::vector<at::Tensor> kv = ops::linear(x, params.kv, params.kv_bias).chunk(2, 1);
  const at::Tensor scores = (queries * kv[0]).sum(-1) / std::sqrt(static_cast<double>(x.size(1)));
  const at::Tensor weights = softmax_of_chunks(scores, chunk, chunks);
  const at::Tensor sure = straight_through_confidence(forest.p, forest.boundary);
  const at::Tensor values = (weights * sure).unsqueeze(1) * kv[1];
  const at::Tensor shares = weights.detach().unsqueeze(1) * rows.places;
  const auto sums = [&](const at::Tensor& of) {
    return at::zeros({chunks, of.size(1)}, of.options()).index_add(0, chunk, of);
  };
  return {.x = x_root.index_add(0, chunk, values),
          .centroids = sums(shares),
          .sizes = at::zeros({chunks}, chunk.options()).index_add(0, chunk, at::ones_like(chunk)),
          .starts = (rows.sequences.position == 0).to(x.scalar_type()).index_select(0, first)};
}

}  // namespace trireme::blocks
