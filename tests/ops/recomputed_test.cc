#include "trireme/ops/recomputed.h"

#include <gtest/gtest.h>

#include "tests/harness/count_allocations.h"
#include "tests/ops/tensors.h"
#include "trireme/ops/attention/attention.h"
#include "trireme/ops/feed_forward.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"

namespace trireme::ops::recomputed_test {
namespace {

TEST(Recomputed, IsComputedOnceAndGoesWithItsLastUser) {
  int computed = 0;
  const harness::CountAllocations count;
  const std::int64_t before = count.live_bytes();
  Source first;
  first.recomputed = std::make_shared<Recomputed>([&]() -> Tensors {
    ++computed;
    EXPECT_FALSE(at::GradMode::is_enabled());
    return {at::zeros({16}), at::ones({16})};
  });
  Source second{.recomputed = first.recomputed, .index = 1};
  EXPECT_EQ(count.live_bytes(), before);
  EXPECT_EQ(first.recomputed->get(first.index).sum().item<double>(), 0);
  EXPECT_EQ(second.recomputed->get(second.index).sum().item<double>(), 16);
  EXPECT_EQ(computed, 1);
  EXPECT_GT(count.live_bytes(), before);
  first.recomputed.reset();
  EXPECT_GT(count.live_bytes(), before);
  second.recomputed.reset();
  EXPECT_EQ(count.live_bytes(), before);
}

// Every op that can leave out what it gives, one after the other: gradients of all that is read.
Tensors gradients(Keep keep) {
  Tensors leaves = {normal({2, 24, 12}, 1), normal({12}, 2),     normal({12}, 3),
                    normal({36, 12}, 4),    normal({12, 12}, 5), normal({20, 12}, 6),
                    normal({20}, 7),        normal({12, 20}, 8), normal({12}, 9)};
  for (at::Tensor& leaf : leaves) leaf.set_requires_grad(true);
  const Branching first = residual_norm(leaves[0], {}, leaves[1], leaves[2], 1e-5, {}, keep);
  const at::Tensor qkv = linear(first.normed, leaves[3]);
  const Operand mixed =
      attention_packed(qkv, {.heads = 3, .kv_heads = 3}, Mask::causal(), {}, keep);
  const Branching second =
      residual_norm(first.stream, linear(mixed, leaves[4]), leaves[1], {}, 1e-5, {}, keep);
  const Operand up = column_linear(second.normed, leaves[5], leaves[6], {}, {}, keep);
  const at::Tensor down = gelu_linear(up, leaves[7], leaves[8]);
  const std::vector<Operand> wide =
      column_linears(second.normed, {{leaves[5]}, {leaves[5]}}, {}, {}, keep);
  const at::Tensor gated = gated_linear(wide[0], wide[1], leaves[7]);
  (second.stream + down + gated).square().sum().backward();
  Tensors all;
  for (const at::Tensor& leaf : leaves) all.push_back(leaf.grad());
  return all;
}

TEST(Recomputed, GivesTheBitsOfWhatIsKept) {
  const Tensors kept = gradients(Keep::kYes), recomputed = gradients(Keep::kNo);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    ASSERT_TRUE(kept[i].defined());
    EXPECT_TRUE(at::equal(kept[i], recomputed[i])) << i;
  }
}

TEST(Recomputed, WithoutGradientsNothingIsKept) {
  const at::Tensor x = normal({4, 16}, 1), gain = normal({16}, 2);
  const harness::CountAllocations count;
  const std::int64_t before = count.live_bytes();
  {
    const at::NoGradGuard guard;
    const Branching out = residual_norm(x, {}, gain, {}, 1e-5, {}, Keep::kNo);
    const at::Tensor y = linear(out.normed, normal({16, 16}, 3));
  }
  EXPECT_EQ(count.live_bytes(), before);
}

}  // namespace
}  // namespace trireme::ops::recomputed_test
