// Rows of data-parallel ranks brought together, with the gradients of the sum of their losses.
#include "trireme/ops/batch.h"

#include <ATen/ops/cat.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <numeric>

#include "tests/harness/ranks.h"
#include "tests/ops/tensors.h"
#include "trireme/comm/counting_group.h"

namespace trireme::ops::batch_test {
namespace {

// Of a rank: what its own rows have to do with all of them; not the same on every rank.
at::Tensor loss(const at::Tensor& own, const at::Tensor& all, std::int64_t first) {
  const at::Tensor scores = at::matmul(own, all.t()).sin();
  return (scores * at::arange(first + 1, first + 1 + own.size(0), own.options()).unsqueeze(1))
      .sum();
}

TEST(GatherBatch, HasTheGradientOfTheSumOfAllLosses) {
  for (const int ranks : {2, 4}) {
    const std::int64_t rows = 12 / ranks;
    const at::Tensor whole = normal({12, 5}, 1).to(at::kDouble);
    const at::Tensor one = whole.clone().requires_grad_(true);
    const at::Tensor expected = loss(one, gather_batch(one, nullptr), 0);
    expected.backward();
    Tensors gradients(static_cast<std::size_t>(ranks));
    std::vector<double> losses(static_cast<std::size_t>(ranks));
    harness::run_ranks(harness::Backend::kLocal, ranks, 60, [&](comm::World& world) {
      std::vector<int> everyone(static_cast<std::size_t>(ranks));
      std::iota(everyone.begin(), everyone.end(), 0);
      const auto group = world.make_group("dp", everyone);
      const std::int64_t first = world.rank() * rows;
      const at::Tensor own = whole.narrow(0, first, rows).clone().requires_grad_(true);
      const at::Tensor all = gather_batch(own, group.get());
      EXPECT_TRUE(at::equal(all, whole));
      const at::Tensor mine = loss(own, all, first);
      mine.backward();
      losses[world.rank()] = mine.item<double>();
      gradients[world.rank()] = own.grad();
    });
    EXPECT_NEAR(std::accumulate(losses.begin(), losses.end(), 0.0), expected.item<double>(), 1e-12);
    EXPECT_LT((at::cat(gradients) - one.grad()).abs().max().item<double>(), 1e-12);
  }
}

}  // namespace
}  // namespace trireme::ops::batch_test
