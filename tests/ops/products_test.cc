// How many products a thread keeps compiled code for.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/ops/tensors.h"
#include "trireme/ops/kernels/cpu/matmul.h"

namespace trireme::ops::products_test {
namespace {

kernels::Matrix matrix(const at::Tensor& x) {
  return {.data = x.data_ptr(),
          .type = x.scalar_type(),
          .rows = x.size(0),
          .columns = x.size(1),
          .row_stride = x.stride(0)};
}

// Every number of rows is a new product, and the oldest leave; results are the same as before.
TEST(Products, OfMoreShapesThanAreKeptTheLastAre) {
  const auto most = static_cast<std::int64_t>(kernels::kMostProducts);
  const at::Tensor a = normal({most + most / 2, 3}, 1).to(at::kBFloat16);
  const at::Tensor b = normal({3, 2}, 2).to(at::kBFloat16);
  const auto product = [&](std::int64_t rows) {
    const at::Tensor out = at::zeros({rows, 2}, at::kFloat);
    kernels::matmul(matrix(a.narrow(0, 0, rows)), matrix(b), matrix(out));
    return out;
  };
  const at::Tensor first = product(1);
  std::size_t kept = 0;
  for (std::int64_t rows = 1; rows <= a.size(0); ++rows) {
    product(rows);
    kept = std::max(kept, kernels::kept_products());
    ASSERT_LE(kernels::kept_products(), kernels::kMostProducts);
  }
  EXPECT_TRUE(kept == 0 || kept > kernels::kMostProducts / 2);
  const std::size_t before = kernels::kept_products();
  EXPECT_LT(
      (product(a.size(0)) - at::mm(a.to(at::kFloat), b.to(at::kFloat))).abs().max().item<float>(),
      1e-5F);
  EXPECT_EQ(kernels::kept_products(), before);  // the last one was kept
  EXPECT_TRUE(at::equal(product(1), first));    // the first one is made again
  EXPECT_LE(kernels::kept_products(), kernels::kMostProducts);
}

// Code for all shapes multiplies matrices that lie in any order, into sums too.
TEST(Products, OfFloatsKeepNoCode) {
  const std::size_t before = kernels::kept_products();
  for (const std::int64_t rows : {1, 5, 64}) {
    const at::Tensor a = normal({rows, 7}, 1).to(at::kFloat), b = normal({7, 3}, 2).to(at::kFloat);
    const at::Tensor wide = at::zeros({rows, 8}, at::kFloat), out = wide.narrow(1, 2, 3);
    const at::Tensor turned = a.t().contiguous().t(), narrow = at::cat({b, b}, 1).narrow(1, 3, 3);
    for (const at::Tensor& left : {a, turned})
      for (const at::Tensor& right : {b, narrow}) {
        const kernels::Matrix columns{.data = left.data_ptr(),
                                      .type = left.scalar_type(),
                                      .rows = rows,
                                      .columns = 7,
                                      .row_stride = left.stride(0),
                                      .column_stride = left.stride(1)};
        kernels::matmul(columns, matrix(right), matrix(out));
        kernels::matmul(columns, matrix(right), matrix(out), kernels::Into::kAdd);
        EXPECT_LT((out - 2 * at::mm(a, b)).abs().max().item<float>(), 1e-5F) << rows;
        EXPECT_EQ(wide.select(1, 1).abs().max().item<float>(), 0);
        EXPECT_EQ(wide.select(1, 5).abs().max().item<float>(), 0);
      }
  }
  EXPECT_EQ(kernels::kept_products(), before);
}

}  // namespace
}  // namespace trireme::ops::products_test
