// Rows in order on ranks that have unlike numbers of them: taken, brought together, attending.
#include "trireme/ops/rows.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "tests/harness/ranks.h"
#include "tests/ops/attention_cases.h"
#include "trireme/base/error.h"
#include "trireme/ops/attention/context.h"
#include "trireme/plan/mesh/share.h"

namespace trireme::ops::rows_test {
namespace {

constexpr std::int64_t kRows = 17;

// What every rank gives, in rank order.
Tensors on_ranks(int ranks, const std::function<at::Tensor(const ContextParallel&)>& body) {
  Tensors all(static_cast<std::size_t>(ranks));
  harness::run_ranks(harness::Backend::kLocal, ranks, 60, [&](comm::World& world) {
    std::vector<int> everyone(static_cast<std::size_t>(ranks));
    std::iota(everyone.begin(), everyone.end(), 0);
    const ContextGroups groups(world, everyone, ContextMethod::kAllGather);
    ContextParallel context = groups.parallel();
    context.layout = mesh::in_order(kRows, ranks);
    all[world.rank()] = body(context);
  });
  return all;
}

at::Tensor part(const at::Tensor& x, std::int64_t dim, const ContextParallel& context) {
  const mesh::Share own = mesh::share(x.size(dim), context.rank(), context.size());
  return x.narrow(dim, own.begin, own.count()).contiguous();
}

// Packed rows and those of two sequences.
const std::vector<std::vector<std::int64_t>> kShapes = {{kRows, 3}, {2, kRows, 3}};

TEST(Rows, TogetherAreTheWholeWithTheGradientOfTheSumOfAllLosses) {
  for (const std::vector<std::int64_t>& shape : kShapes)
    for (const int ranks : {2, 3, 4}) {
      const at::Tensor whole = normal(shape, 1);
      at::Tensor seeds = at::zeros(shape, at::kDouble);
      for (int rank = 0; rank < ranks; ++rank) seeds = seeds + normal(shape, 2 + rank);
      const Tensors gradients = on_ranks(ranks, [&](const ContextParallel& context) {
        const at::Tensor own = own_rows(whole, *context.group).requires_grad_(true);
        const at::Tensor all = all_rows(own, *context.group);
        EXPECT_TRUE(at::equal(all, whole));
        all.backward(normal(shape, 2 + context.rank()));
        return own.grad();
      });
      const std::int64_t dim = static_cast<std::int64_t>(shape.size()) - 2;
      EXPECT_LT(distance(at::cat(gradients, dim), seeds), 1e-14) << ranks;
    }
}

TEST(Rows, OthersGetNoGradient) {
  for (const std::vector<std::int64_t>& shape : kShapes) {
    const Tensors gradients = on_ranks(3, [&](const ContextParallel& context) {
      const at::Tensor whole = normal(shape, 1).requires_grad_(true);
      own_rows(whole, *context.group).sum().backward();
      return whole.grad();
    });
    for (const at::Tensor& gradient : gradients)
      EXPECT_LT(gradient.sum().item<double>(), 2 * 3 * 7);
    EXPECT_TRUE(
        at::equal(gradients[0] + gradients[1] + gradients[2], at::ones(shape, at::kDouble)));
  }
}

TEST(Rows, FewerThanRanksAreRefused) {
  on_ranks(3, [](const ContextParallel& context) {
    EXPECT_THROW(own_rows(normal({2, 3}, 1), *context.group), Error);
    return own_rows(normal({3, 3}, 1), *context.group);
  });
}

// Every mask, and key-value heads that several query heads read.
TEST(Rows, AttendAsOnOneRank) {
  constexpr std::int64_t kWidth = 6;
  for (const NamedMask& named : all_masks(2, kRows))
    for (const AttentionHeads& heads :
         {AttentionHeads{.heads = 3, .kv_heads = 3}, AttentionHeads{.heads = 4, .kv_heads = 2}}) {
      const Tensors in = {normal({2, kRows, heads.heads * kWidth}, 1),
                          normal({2, kRows, heads.kv_heads * kWidth}, 2),
                          normal({2, kRows, heads.kv_heads * kWidth}, 3)};
      const at::Tensor seed = normal(in[0].sizes().vec(), 9);
      const auto results = [&](const ContextParallel& context) {
        Mask mask = named.mask;
        Tensors leaves;
        for (at::Tensor* places : {&mask.documents.begin, &mask.documents.end})
          if (places->defined()) *places = part(*places, 1, context);
        for (const at::Tensor& x : in)
          leaves.push_back(part(x, 1, context).clone().requires_grad_(true));
        const at::Tensor out = attention(leaves[0], leaves[1], leaves[2], heads, mask, context);
        out.backward(part(seed, 1, context));
        return at::cat({out.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()}, 2);
      };
      const at::Tensor one = results({});
      for (const int ranks : {2, 3})
        EXPECT_LT(distance(at::cat(on_ranks(ranks, results), 1), one), 1e-13)
            << named.name << " on " << ranks;
    }
}

}  // namespace
}  // namespace trireme::ops::rows_test
