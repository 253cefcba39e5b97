// SigLIP's loss with captions that go round equals that over captions brought together.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <numeric>

#include "tests/harness/ranks.h"
#include "tests/ops/tensors.h"
#include "trireme/families/clip/blocks_siglip.h"

namespace trireme::blocks::siglip_test {
namespace {

using ops::normal;
using Gradients = std::vector<at::Tensor>;

struct Leaves {
  at::Tensor images, captions, scale, bias;
  Leaves(const at::Tensor& x, const at::Tensor& t)
      : images(leaf(x)),
        captions(leaf(t)),
        scale(leaf(at::full({1}, 0.7, at::kDouble))),
        bias(leaf(at::full({1}, -1.3, at::kDouble))) {}
  static at::Tensor leaf(const at::Tensor& x) {
    return x.to(at::kDouble).clone().requires_grad_(true);
  }
  Gradients gradients() const {
    return {images.grad(), captions.grad(), scale.grad(), bias.grad()};
  }
};

// All against all, as the formula says.
at::Tensor written_out(const Leaves& in) {
  const at::Tensor logits = in.scale.exp() * at::matmul(in.images, in.captions.t()) + in.bias;
  const at::Tensor signs = 2 * at::eye(logits.size(0), logits.options()) - 1;
  return at::log_sigmoid(signs * logits).sum().neg();
}

TEST(SiglipLoss, IsThatOfCaptionsBroughtTogether) {
  const at::Tensor x = normal({12, 5}, 1), t = normal({12, 5}, 2);
  const Leaves one(x, t);
  const at::Tensor expected = 3 * written_out(one);
  expected.backward();
  const Gradients known = one.gradients();
  const at::Tensor products = at::matmul(one.images, one.captions.t()).detach();
  const auto nearest = products.argmax(1).eq(at::arange(12, at::kLong)).sum().item<std::int64_t>();
  for (const int ranks : {1, 2, 3, 4}) {
    const std::int64_t rows = 12 / ranks;
    std::vector<Gradients> gradients(static_cast<std::size_t>(ranks));
    std::vector<double> losses(static_cast<std::size_t>(ranks));
    std::vector<std::int64_t> right(static_cast<std::size_t>(ranks));
    harness::run_ranks(harness::Backend::kLocal, ranks, 60, [&](comm::World& world) {
      std::vector<int> everyone(static_cast<std::size_t>(ranks));
      std::iota(everyone.begin(), everyone.end(), 0);
      const auto group = world.make_group("dp", everyone);
      const auto me = static_cast<std::size_t>(world.rank());
      const Leaves own(x.narrow(0, world.rank() * rows, rows),
                       t.narrow(0, world.rank() * rows, rows));
      const SiglipResult result =
          siglip_loss(own.images, own.captions, own.scale, own.bias, group.get());
      (3 * result.loss).backward();
      gradients[me] = own.gradients();
      losses[me] = result.loss.item<double>();
      right[me] = result.nearest_own;
      // Without gradients, as in evaluation, the same.
      const at::NoGradGuard none;
      EXPECT_EQ(siglip_loss(own.images, own.captions, own.scale, own.bias, group.get())
                    .loss.item<double>(),
                losses[me]);
    });
    SCOPED_TRACE(ranks);
    EXPECT_NEAR(3 * std::accumulate(losses.begin(), losses.end(), 0.0), expected.item<double>(),
                1e-12 * expected.item<double>());
    EXPECT_EQ(std::accumulate(right.begin(), right.end(), std::int64_t{0}), nearest);
    for (std::size_t which = 0; which < known.size(); ++which) {
      Gradients parts;
      for (const Gradients& of_rank : gradients) parts.push_back(of_rank[which]);
      const at::Tensor all = which < 2 ? at::cat(parts) : at::stack(parts).sum(0);
      EXPECT_LT(ops::distance(all, known[which]), 1e-12) << which;
    }
  }
}

// Of captions that are equal the first is the nearest, wherever they are.
TEST(SiglipLoss, OfEqualCaptionsCountsTheFirst) {
  const at::Tensor same = at::ones({4, 3}, at::kDouble);
  for (const int ranks : {1, 2, 4}) {
    std::vector<std::int64_t> right(static_cast<std::size_t>(ranks));
    harness::run_ranks(harness::Backend::kLocal, ranks, 60, [&](comm::World& world) {
      std::vector<int> everyone(static_cast<std::size_t>(ranks));
      std::iota(everyone.begin(), everyone.end(), 0);
      const auto group = world.make_group("dp", everyone);
      const Leaves own(same.narrow(0, 0, 4 / ranks), same.narrow(0, 0, 4 / ranks));
      right[world.rank()] =
          siglip_loss(own.images, own.captions, own.scale, own.bias, group.get()).nearest_own;
    });
    EXPECT_EQ(std::accumulate(right.begin(), right.end(), std::int64_t{0}), 1) << ranks;
    EXPECT_EQ(right[0], 1) << ranks;
  }
}

}  // namespace
}  // namespace trireme::blocks::siglip_test
