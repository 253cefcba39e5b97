// Smoothing along trees against H-Net's along a line and against the recursion that it is.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "trireme/families/hnet/blocks_chunking.h"
#include "trireme/families/hvjepa/blocks_read_out.h"

namespace trireme::blocks::read_out_test {
namespace {

constexpr model::PatchGrid kClip{.frames = 3, .rows = 4, .columns = 5, .features = 1};

at::Tensor normal(std::vector<std::int64_t> shape, std::uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed),
                   at::TensorOptions().dtype(at::kDouble));
}

GridRows whole(std::int64_t clips, const model::PatchGrid& grid) {
  const std::int64_t rows = clips * grid.tokens();
  return {at::arange(rows, at::kLong), at::arange(0, rows + 1, grid.tokens(), at::kLong), grid};
}

// Of random tokens.
Forest grown(std::int64_t clips, const model::PatchGrid& grid, const config::Chunk& chunk) {
  return forest(normal({clips * grid.tokens(), 6}, 11), normal({6, 6}, 12), normal({6, 6}, 13),
                whole(clips, grid), chunk);
}

std::int64_t number(const at::Tensor& of, std::int64_t row) { return of[row].item<std::int64_t>(); }

// Oracle 14, behind the router: where a line begins H-Net's clamp leaves 0.9999 of the first chunk.
TEST(ReadOut, OfOnePlaceAFrameIsHNetsDechunk) {
  constexpr model::PatchGrid kLine{.frames = 40, .rows = 1, .columns = 1, .features = 1};
  const Forest trees = grown(2, kLine, {});
  const at::Tensor first = chunk_rows(trees.boundary), p = trees.p.index_select(0, first);
  const Sequences chunks(first.remainder(40) == 0);
  ASSERT_EQ(chunks.count(), 2);
  ASSERT_GT(first.size(0), 10);
  ASSERT_LT(p.masked_select(p < 1).max().item<double>(), 0.9999);
  const at::Tensor z = normal({first.size(0), 5}, 14);
  const at::Tensor scaled = at::where((chunks.position == 0).unsqueeze(1), z / 0.9999, z);
  const at::Tensor line = smoothed(scaled, p, chunks);
  EXPECT_LT((smoothed(z, trees) - line).abs().max().item<double>(), 1e-12);
  const at::Tensor rows = line.index_select(0, chunk_of_rows(trees.boundary));
  EXPECT_LT((read_out(z, trees) - rows).abs().max().item<double>(), 1e-12);
}

TEST(ReadOut, IsTheRecursionFromRootToRoot) {
  for (const config::ChunkMode mode :
       {config::ChunkMode::kThreshold, config::ChunkMode::kTopK, config::ChunkMode::kFixed}) {
    const Forest trees = grown(2, kClip, {.mode = mode, .ratio = 5});
    const at::Tensor first = chunk_rows(trees.boundary);
    const at::Tensor chunk = chunk_of_rows(trees.boundary).index_select(0, trees.root);
    const at::Tensor z = normal({first.size(0), 5}, 15);
    const at::Tensor y = z.clone();
    for (std::int64_t m = 0; m < first.size(0); ++m) {
      const std::int64_t root = number(first, m), before = number(trees.nearest, root);
      if (before < 0) continue;
      ASSERT_LT(number(chunk, before), m);
      y[m].copy_(trees.p[root] * z[m] + (1 - trees.p[root]) * y[number(chunk, before)]);
    }
    EXPECT_LT((smoothed(z, trees) - y).abs().max().item<double>(), 1e-12);
    const at::Tensor rows = read_out(z, trees);
    for (std::int64_t i = 0; i < rows.size(0); ++i)
      ASSERT_TRUE(rows[i].allclose(y[number(chunk, i)], 0, 1e-12)) << i;
  }
}

// To the bit: a clip's tokens are the same whatever lies beside it.
TEST(ReadOut, OfPackedClipsIsThatOfEachAlone) {
  const Forest both = grown(2, kClip, {});
  const std::int64_t tokens = kClip.tokens();
  const at::Tensor z = normal({chunk_rows(both.boundary).size(0), 5}, 16);
  const at::Tensor packed = read_out(z, both);
  std::int64_t chunks = 0;
  for (const std::int64_t clip : {0, 1}) {
    const auto own = [&](const at::Tensor& of) { return of.narrow(0, clip * tokens, tokens); };
    const at::Tensor nearest = own(both.nearest);
    const Forest one{.p = own(both.p),
                     .boundary = own(both.boundary),
                     .root = own(both.root) - clip * tokens,
                     .nearest = at::where(nearest < 0, nearest, nearest - clip * tokens)};
    const std::int64_t count = one.boundary.sum().item<std::int64_t>();
    EXPECT_TRUE(read_out(z.narrow(0, chunks, count), one).equal(own(packed)));
    chunks += count;
  }
  EXPECT_EQ(chunks, z.size(0));
}

TEST(ReadOut, TreesGoFromNodeToNodeInNarrowTypes) {
  const Forest trees = grown(40, kClip, {});
  const auto p = trees.p.to(at::kFloat);
  const Forest narrow{p, trees.boundary, trees.root, trees.nearest};
  for (const auto& [parts, type] : {std::pair{1, at::kFloat}, {3, at::kBFloat16}, {3, at::kHalf}}) {
    const at::Tensor packed = packed_trees(narrow, parts, type);
    EXPECT_EQ(packed.scalar_type(), type);
    const Forest back = unpacked_trees(packed, parts);
    EXPECT_TRUE(back.boundary.equal(trees.boundary));
    EXPECT_TRUE(back.nearest.equal(trees.nearest));
    EXPECT_TRUE(back.root.equal(trees.root));
    EXPECT_LT((back.p - p).abs().max().item<double>(), 1e-7);
  }
}

}  // namespace
}  // namespace trireme::blocks::read_out_test
