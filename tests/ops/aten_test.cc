// What a GPU runs against our kernels on the CPU, where they promise more than the formula: the same noise, and
// products and sums whatever the pieces. The formulas themselves are proven by aten_test, which runs every test
// of ops on LibTorch's operators.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/ops/tensors.h"
#include "trireme/ops/aten/cross_entropy.h"
#include "trireme/ops/aten/pointwise.h"
#include "trireme/ops/aten/rows.h"
#include "trireme/ops/cross_entropy.h"
#include "trireme/ops/pointwise.h"

namespace trireme::ops::aten_test {
namespace {

TEST(Aten, NoiseHasTheSameBits) {
  for (const std::uint64_t key : {std::uint64_t{0}, std::uint64_t{77}, ~std::uint64_t{0} - 5})
    for (const double p : {0.0, 0.1, 0.5, 0.97}) {
      const auto keep = kernels::Keep::at_rate(key, p);
      const at::Tensor rows = at::tensor({0, 1, 1023, 1 << 20, 2147483647}, at::kLong) * 3;
      const at::Tensor columns = at::tensor({0, 1, 1023, 1 << 30}, at::kLong);
      const at::Tensor mask = aten::kept(keep, rows.unsqueeze(1), columns);
      for (std::int64_t r = 0; r < rows.numel(); ++r)
        for (std::int64_t c = 0; c < columns.numel(); ++c) {
          const auto row = static_cast<std::uint64_t>(rows[r].item<std::int64_t>());
          const auto column = static_cast<std::uint32_t>(columns[c].item<std::int64_t>());
          EXPECT_EQ(mask[r][c].item<bool>(), keep(keep.row(row), column))
              << key << " " << p << " " << row << " " << column;
        }
    }
}

TEST(Aten, DropoutHasTheSameBits) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const at::Tensor x = normal({5, 700}, 1).to(type);
    const auto keep = kernels::Keep::at_rate(9, 0.3);
    EXPECT_TRUE(at::equal(aten::dropout(x, keep, 1 / 0.7, {}), ops::dropout(x, 0.3, 9))) << type;
    const at::Tensor rows = at::tensor({4, 0, 3000000, 7, 1}, at::kLong);
    EXPECT_TRUE(at::equal(aten::dropout(x, keep, 1 / 0.7, rows), ops::dropout(x, 0.3, 9, rows)))
        << type;
  }
}

TEST(Aten, TablesOfOtherRanksGiveAndGetNothing) {
  const at::Tensor table = normal({4, 3}, 1), dy = normal({6, 3}, 2);
  const at::Tensor ids =
      at::tensor({9, 10, 11, 13, 14, 10}, at::kLong);  // this table begins with 10
  const at::Tensor rows = aten::lookup(ids, table, 10);
  EXPECT_TRUE(at::equal(rows[1], table[0]));
  EXPECT_TRUE(at::equal(rows[3], table[3]));
  EXPECT_EQ(rows[0].abs().sum().item<double>() + rows[4].abs().sum().item<double>(), 0);
  const at::Tensor grad = aten::lookup_backward(ids, dy, 10, 4);
  EXPECT_TRUE(at::equal(grad[0], dy[1] + dy[5]));
  EXPECT_TRUE(at::equal(grad[3], dy[3]));
  EXPECT_EQ(grad[2].abs().sum().item<double>(), 0);
}

TEST(Aten, LossOfRowsWithoutTargetsAndOfClassesElsewhere) {
  const at::Tensor logits = normal({4, 5}, 1, 3).to(at::kFloat);
  const at::Tensor targets = at::tensor(std::vector<std::int64_t>{12, kNoTarget, 40, 10});
  const aten::RowStats stats = aten::row_stats(logits, targets, 10);
  EXPECT_FLOAT_EQ(stats.chosen[0].item<float>(), logits[0][2].item<float>());
  EXPECT_EQ(stats.log_sums[1].item<float>(), 0);
  EXPECT_EQ(stats.chosen[2].item<float>(), 0);  // class 40 is on another rank
  EXPECT_TRUE(
      aten::row_stats(logits.narrow(1, 0, 0), targets, 10).log_sums[0].isinf().item<bool>());
  const at::Tensor gradient = logits.clone();
  aten::to_gradient(gradient, targets, 10, stats.log_sums, at::full({}, 0.5f));
  const at::Tensor probs = logits.softmax(1) * 0.5;
  EXPECT_LT(distance(gradient[2], probs[2]), 1e-6);
  EXPECT_EQ(gradient[1].abs().sum().item<float>(), 0);
  EXPECT_NEAR(gradient[0][2].item<float>(), probs[0][2].item<float>() - 0.5f, 1e-6);
}

}  // namespace
}  // namespace trireme::ops::aten_test
