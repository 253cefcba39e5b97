// Forests over a clip's tokens against H-Net's line and what must hold of every forest.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "trireme/families/hnet/blocks_chunking.h"
#include "trireme/families/hvjepa/blocks.h"
#include "trireme/families/hvjepa/blocks_chunks.h"
#include "trireme/families/hvjepa/blocks_neighbours.h"

namespace trireme::blocks::video_chunks_test {
namespace {

using config::ChunkMode;

const auto kF64 = at::TensorOptions().dtype(at::kDouble);
constexpr model::PatchGrid kGrid{.frames = 3, .rows = 4, .columns = 5, .features = 1};

at::Tensor drawn(std::vector<std::int64_t> shape, std::uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), kF64);
}

double apart(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

at::Tensor ids_of(std::vector<std::int64_t> ids) { return at::tensor(ids, at::kLong); }

// Two clips of which about two thirds of the tokens are there.
GridRows parts_of_clips() {
  const at::Tensor seen =
      at::rand({2, kGrid.tokens()}, at::make_generator<at::CPUGeneratorImpl>(7), kF64) < 0.66;
  const std::int64_t first = seen[0].sum().item<std::int64_t>();
  const at::Tensor ids = seen.flatten().nonzero().flatten();
  return {ids, ids_of({0, first, ids.size(0)}), kGrid};
}

GridRows whole_clips(std::int64_t clips) {
  const std::int64_t rows = clips * kGrid.tokens();
  return {at::arange(rows, at::kLong), at::arange(0, rows + 1, kGrid.tokens(), at::kLong), kGrid};
}

Forest random_forest(const GridRows& rows, const config::Chunk& chunk) {
  const at::Tensor x = drawn({rows.places.size(0), 6}, 11);
  return forest(x, drawn({6, 6}, 12), drawn({6, 6}, 13), rows, chunk);
}

PoolParams random_pool(std::int64_t d) {
  return {.query = drawn({d, d}, 21),
          .query_bias = drawn({d}, 22),
          .kv = drawn({2 * d, d}, 23),
          .kv_bias = drawn({2 * d}, 24)};
}

// Oracle 14: one row and column are a line.
TEST(VideoChunks, OfOnePlaceAFrameAreHNets) {
  constexpr model::PatchGrid kLine{.frames = 40, .rows = 1, .columns = 1, .features = 1};
  const GridRows rows(at::arange(80, at::kLong), ids_of({0, 40, 80}), kLine);
  const at::Tensor x = drawn({80, 6}, 1), query = drawn({6, 6}, 2), key = drawn({6, 6}, 3);
  const Routing line = route(x, query, key, rows.sequences);
  const Forest trees = forest(x, query, key, rows, {});
  EXPECT_EQ(apart(trees.p, line.p), 0);
  EXPECT_TRUE(trees.boundary.equal(line.boundary));
  EXPECT_TRUE(chunk_of_rows(trees.boundary)
                  .index_select(0, trees.root)
                  .equal(chunk_of_rows(line.boundary)));
  PoolParams none = random_pool(6);
  none.kv.zero_(), none.kv_bias.zero_();
  EXPECT_EQ(apart(pool(x, trees, rows, none).x, x.index_select(0, chunk_rows(line.boundary))), 0);
}

TEST(VideoChunks, HaveEveryTokenOnceAndOneRoot) {
  for (const GridRows& rows : {parts_of_clips(), whole_clips(2)})
    for (const ChunkMode mode : {ChunkMode::kThreshold, ChunkMode::kTopK, ChunkMode::kFixed}) {
      const Forest trees = random_forest(rows, {.mode = mode, .ratio = 5});
      EXPECT_TRUE(trees.root.index_select(0, trees.root).equal(trees.root));
      EXPECT_TRUE(trees.boundary.index_select(0, trees.root).all().item<bool>());
      EXPECT_TRUE(rows.sequences.number.index_select(0, trees.root).equal(rows.sequences.number));
      const at::Tensor x = drawn({rows.places.size(0), 6}, 11);
      const PooledChunks chunks = pool(x, trees, rows, random_pool(6));
      EXPECT_EQ(chunks.sizes.sum().item<std::int64_t>(), rows.places.size(0));
      EXPECT_EQ(chunks.x.size(0), trees.boundary.sum().item<std::int64_t>());
      EXPECT_EQ(chunks.starts.sum().item<double>(), 2);
    }
}

// From everyone that is no root a face leads to one of its chunk.
TEST(VideoChunks, AreConnectedByFaces) {
  const GridRows rows = parts_of_clips();
  const Forest trees = random_forest(rows, {});
  const at::Tensor before = rows.rows_at(before_offsets(at::kCPU));
  const at::Tensor same =
      trees.root.index_select(0, before.clamp_min(0).flatten()).view(before.sizes()) ==
      trees.root.unsqueeze(1);
  const at::Tensor joined = same.logical_and(before >= 0).any(1);
  EXPECT_TRUE(joined.logical_or(trees.boundary).all().item<bool>());
  EXPECT_GT(joined.sum().item<std::int64_t>(), 10);
}

TEST(VideoChunks, TopKGivesExactlyItsCount) {
  for (const std::int64_t ratio : {2, 4, 7, 16}) {
    const Forest trees = random_forest(whole_clips(3), {.mode = ChunkMode::kTopK, .ratio = ratio});
    const at::Tensor counts = trees.boundary.view({3, -1}).sum(1);
    EXPECT_TRUE(counts.eq((kGrid.tokens() + ratio - 1) / ratio).all().item<bool>()) << ratio;
  }
}

TEST(VideoChunks, FixedOnesAreRunsOfColumns) {
  const Forest trees = random_forest(whole_clips(1), {.mode = ChunkMode::kFixed, .ratio = 5});
  EXPECT_TRUE(trees.root.equal(at::arange(60, at::kLong).div(5, "floor") * 5));
}

// A clip's chunks do not depend on what it is packed with.
TEST(VideoChunks, OfPackedClipsAreThoseOfEachAlone) {
  const GridRows both = parts_of_clips();
  const std::int64_t first = both.sequences.bounds[1], all = both.sequences.bounds[2];
  const at::Tensor x = drawn({all, 6}, 31), query = drawn({6, 6}, 32), key = drawn({6, 6}, 33);
  const PoolParams params = random_pool(6);
  const PooledChunks packed = pool(x, forest(x, query, key, both, {}), both, params);
  const at::Tensor ids = (both.places * ids_of({20, 5, 1})).sum(1);
  std::vector<at::Tensor> alone, centroids;
  for (const auto& [begin, rows] : {std::pair{std::int64_t{0}, first}, {first, all - first}}) {
    const GridRows own(ids.narrow(0, begin, rows), ids_of({0, rows}), kGrid);
    const at::Tensor mine = x.narrow(0, begin, rows);
    const PooledChunks chunks = pool(mine, forest(mine, query, key, own, {}), own, params);
    alone.push_back(chunks.x), centroids.push_back(chunks.centroids);
  }
  EXPECT_LT(apart(packed.x, at::cat(alone)), 1e-12);
  EXPECT_LT(apart(packed.centroids, at::cat(centroids)), 1e-12);
}

// Gradients reach the router through confidences alone.
TEST(VideoChunks, RoutersLearnFromWhatChunksAreGood) {
  const GridRows rows = whole_clips(1);
  const at::Tensor x = drawn({60, 6}, 41);
  const at::Tensor query = drawn({6, 6}, 42).set_requires_grad(true);
  const at::Tensor key = drawn({6, 6}, 43).set_requires_grad(true);
  pool(x, forest(x, query, key, rows, {}), rows, random_pool(6)).x.square().sum().backward();
  EXPECT_GT(query.grad().abs().max().item<double>(), 0);
  EXPECT_GT(key.grad().abs().max().item<double>(), 0);
}

TEST(VideoChunks, NeighboursAreTheMostAlikeAroundARow) {
  const GridRows rows = whole_clips(1);
  const at::Tensor x = drawn({60, 6}, 51);
  const at::Tensor all = neighbours(x, rows, 26), few = neighbours(x, rows, 3);
  EXPECT_TRUE(all.select(1, 0).equal(at::arange(60, at::kLong)));
  EXPECT_TRUE(few.equal(all.narrow(1, 0, 4)));
  // The corner has 7 neighbours, a token within the grid all 26.
  EXPECT_EQ((all[0] >= 0).sum().item<int>(), 8);
  EXPECT_EQ((all[1 * 20 + 1 * 5 + 1] >= 0).sum().item<int>(), 27);
  const at::Tensor same = neighbours(at::ones_like(x), rows, 3);
  EXPECT_TRUE(same[26].equal(ids_of({26, 0, 1, 2})));
}

// Half of a chunk is enough for it to be a target.
TEST(VideoChunks, ThatMasksHideByHalfAreTargets) {
  const GridRows rows = whole_clips(1);
  const Forest trees = random_forest(rows, {.mode = ChunkMode::kFixed, .ratio = 5});
  // Mask 0 hides 3 of the first chunk and 2 of the second, mask 1 all of the third.
  const at::Tensor hidden = hidden_chunks(trees, ids_of({0, 1, 2, 5, 6, 10, 11, 12, 13, 14}),
                                          ids_of({0, 5, 10}).to(at::kInt));
  EXPECT_EQ(hidden.sum().item<int>(), 2);
  EXPECT_TRUE(hidden[0][0].item<bool>());
  EXPECT_TRUE(hidden[2][1].item<bool>());
  const Forest pairs = random_forest(rows, {.mode = ChunkMode::kTopK, .ratio = 2});
  const at::Tensor member = (pairs.root == pairs.root[59]).nonzero().flatten();
  const at::Tensor half = member.narrow(0, 0, (member.size(0) + 1) / 2);
  const at::Tensor by_half =
      hidden_chunks(pairs, half, ids_of({0, half.size(0), half.size(0)}).to(at::kInt));
  EXPECT_EQ(by_half.sum().item<int>(), 1);
}

}  // namespace
}  // namespace trireme::blocks::video_chunks_test
