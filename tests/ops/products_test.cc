// How many products a thread keeps compiled code for.
#include <ATen/TensorOperators.h>
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
  const at::Tensor a = normal({most + most / 2, 3}, 1).to(at::kFloat);
  const at::Tensor b = normal({3, 2}, 2).to(at::kFloat);
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
  EXPECT_LT((product(a.size(0)) - at::mm(a, b)).abs().max().item<float>(), 1e-5F);
  EXPECT_EQ(kernels::kept_products(), before);  // the last one was kept
  EXPECT_TRUE(at::equal(product(1), first));    // the first one is made again
  EXPECT_LE(kernels::kept_products(), kernels::kMostProducts);
}

}  // namespace
}  // namespace trireme::ops::products_test
