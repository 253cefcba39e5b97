// Queries and keys of different sequences against the formula in fp64, forward and backward.
#include "trireme/ops/attention/cross_attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/compare.h"

namespace trireme::ops::cross_attention_test {
namespace {

constexpr std::int64_t kCrossHeads = 2, kCrossWidth = 6;

at::Tensor naive_cross(const at::Tensor& q, const at::Tensor& kv, const at::Tensor& seen) {
  const std::vector<at::Tensor> halves = kv.chunk(2, 2);
  const auto by_head = [](const at::Tensor& x) {
    return x.unflatten(2, {kCrossHeads, -1}).transpose(1, 2);
  };
  const at::Tensor scores = by_head(q).matmul(by_head(halves[0]).transpose(2, 3)) /
                            std::sqrt(static_cast<double>(kCrossWidth));
  const at::Tensor probs = scores.masked_fill(seen.logical_not(), -1e30).softmax(-1) * seen;
  return probs.matmul(by_head(halves[1])).transpose(1, 2).reshape(q.sizes());
}

// Of every query a run of keys, of some none: so many queries, keys, and keys of a run.
void expect_the_formula(std::int64_t queries, std::int64_t keys, std::int64_t run) {
  SCOPED_TRACE(testing::Message() << queries << " queries, " << keys << " keys by " << run);
  const at::Tensor begin =
      at::arange(queries, at::kLong).div(3, "floor").remainder(keys / run).mul(run).view({1, -1});
  const at::Tensor blind = at::arange(queries, at::kLong).remainder(5).eq(1).view({1, -1});
  const Documents seen{.begin = begin.masked_fill(blind, 0),
                       .end = (begin + run).masked_fill(blind, 0)};
  const at::Tensor columns = at::arange(keys, at::kLong);
  const at::Tensor shown = (columns >= seen.begin.unsqueeze(2))
                               .logical_and(columns < seen.end.unsqueeze(2))
                               .unsqueeze(1);
  expect_equal([&](const Tensors& x) { return cross_attention(x[0], x[1], kCrossHeads, seen); },
               [&](const Tensors& x) { return naive_cross(x[0], x[1], shown); },
               {normal({1, queries, kCrossHeads * kCrossWidth}, 1),
                normal({1, keys, 2 * kCrossHeads * kCrossWidth}, 2)});
}

TEST(CrossAttention, EqualsTheFormulaForAnyNumberOfKeys) {
  expect_the_formula(7, 3, 1);
  expect_the_formula(150, 8, 4);
  expect_the_formula(20, 300, 100);
  expect_the_formula(70, 2500, 500);  // more keys than a tile
}

TEST(CrossAttention, AQueryThatSeesNothingGivesZeroAndTakesNoGradient) {
  const at::Tensor q = normal({1, 4, 12}, 1).requires_grad_(true);
  const at::Tensor kv = normal({1, 5, 24}, 2).requires_grad_(true);
  const at::Tensor none = at::zeros({1, 4}, at::kLong);
  const at::Tensor out = cross_attention(q, kv, 2, {none, none});
  EXPECT_TRUE(at::equal(out, at::zeros_like(out)));
  out.sum().backward();
  EXPECT_TRUE(at::equal(q.grad(), at::zeros_like(q)));
  EXPECT_TRUE(at::equal(kv.grad(), at::zeros_like(kv)));
}

}  // namespace
}  // namespace trireme::ops::cross_attention_test
