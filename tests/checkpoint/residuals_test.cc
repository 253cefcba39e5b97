// Residuals of coded sums in checkpoints: a resumed run has the same bits, other senders keep the total.
#include <ATen/ops/zeros.h>

#include "tests/checkpoint/layers.h"

namespace trireme::checkpoint::checkpoint_test {
namespace {

class ResidualTest : public CheckpointTest {
 protected:
  void SetUp() override {
    CheckpointTest::SetUp();
    width_ = 256;  // units of 65,792 parameters, which are coded
  }
  static Layout coded(Layout one, int senders, std::optional<DType> residual,
                      const char* codec = "q4") {
    one.recipe.coded = {.codec = codec::parse(codec), .senders = senders, .residual = residual};
    return one;
  }
  at::Tensor total(std::int64_t step, int senders) {
    at::Tensor sum = at::zeros({width_ * (width_ + 1)}, at::kDouble);
    const Layout one = coded(layout(1, 1, 0), senders, DType::kF32);
    comm::run_local_ranks(1, 60, [&](comm::World& world) {
      harness::MomentumSgd optimizer;
      exec::Session session(layers(width_), {.mesh = mesh::Mesh(one.degrees), .recipe = one.recipe},
                            world, optimizer);
      load(root_ / fmt::format("step-{}", step), session.units(), session.model().spec.units);
      int found = 0;
      for (const exec::StateSlice& slice : session.units().owned_slices())
        if (slice.unit == 0 && slice.sender >= 0) {
          sum.add_(session.units().read(slice).to(at::kDouble));
          ++found;
        }
      EXPECT_EQ(found, senders);
    });
    return sum;
  }
};

TEST_F(ResidualTest, AResumedRunHasTheBitsOfOneThatWasNotStopped) {
  for (const auto& [codec, residual] : {std::pair{"q4", DType::kF32}, {"i8x", DType::kBF16}}) {
    const auto with = [&](const Layout& one) { return coded(one, 2, residual, codec); };
    const std::vector<double> straight = run(with(layout(1, 1, 0)), 0, 6);
    const std::vector<Layout> layouts = {with(layout(1, 1, 0)), with(layout(2, 1, 0)),
                                         with(layout(1, 2, 1))};
    for (const Layout& before : layouts)
      for (const Layout& after : layouts) {
        std::vector<double> losses = run(before, 0, 3);
        const std::vector<double> rest = run(after, 3, 6);
        losses.insert(losses.end(), rest.begin(), rest.end());
        EXPECT_EQ(losses, straight) << before.name() << " -> " << after.name();
      }
  }
}

// Replicas of two shards distribute matrices.
TEST_F(ResidualTest, AResumedRunAtLowRankHasTheBitsOfOneThatWasNotStopped) {
  const auto with = [&](const Layout& one) { return coded(one, 2, DType::kF32, "lowrank:2"); };
  const std::vector<double> straight = run(with(layout(1, 1, 0)), 0, 6);
  const std::vector<Layout> layouts = {with(layout(1, 1, 0)), with(layout(1, 2, 1)),
                                       with(layout(2, 2, 1))};
  for (const Layout& before : layouts)
    for (const Layout& after : layouts) {
      std::vector<double> losses = run(before, 0, 3);
      const std::vector<double> rest = run(after, 3, 6);
      losses.insert(losses.end(), rest.begin(), rest.end());
      EXPECT_EQ(losses, straight) << before.name() << " -> " << after.name();
    }
}

// Also where the codec is another one then.
TEST_F(ResidualTest, ResidualsAtLowRankKeepTheTotalForOtherSenders) {
  run(coded(layout(2, 2, 1), 2, DType::kF32, "lowrank:2"), 0, 3);
  const at::Tensor two = total(3, 2);
  EXPECT_GT(two.norm().item<double>(), 0);
  for (const int senders : {1, 4})
    EXPECT_LT((total(3, senders) - two).norm().item<double>(), 1e-6 * two.norm().item<double>())
        << senders;
  const Layout more = coded(layout(1, 1, 0), 4, DType::kF32, "lowrank:3");
  EXPECT_EQ(run(more, 3, 5).size(), 2u);
}

// A rank of a host of two has a column of the residual that both share.
TEST_F(ResidualTest, ResidualsOfMicroBatchesResumeFromEveryStepInOtherLayouts) {
  const auto with = [&](const Layout& one, int senders) {
    Layout result = coded(one, senders, DType::kF32);
    result.recipe.coded->residuals = 2;
    return result;
  };
  for (const int senders : {2, 4}) {
    const std::vector<double> straight = run(with(layout(1, 1, 0), senders), 0, 4);
    const std::vector<Layout> layouts =
        senders == 2 ? std::vector{with(layout(1, 1, 0), 2), with(layout(1, 4, 3), 2)}
                     : std::vector{with(layout(1, 1, 0), 4), with(layout(1, 2, 2), 4)};
    for (int stop = 1; stop < 4; ++stop)
      for (const Layout& before : layouts)
        for (const Layout& after : layouts) {
          std::vector<double> losses = run(before, 0, stop);
          const std::vector<double> rest = run(after, stop, 4);
          losses.insert(losses.end(), rest.begin(), rest.end());
          EXPECT_EQ(losses, straight) << before.name() << " -> " << after.name() << " at " << stop;
        }
  }
}

TEST_F(ResidualTest, OtherSendersKeepTheTotal) {
  run(coded(layout(1, 2, 1), 2, DType::kF32), 0, 3);
  const at::Tensor two = total(3, 2);
  EXPECT_GT(two.norm().item<double>(), 0);
  for (const int senders : {1, 4})
    EXPECT_LT((total(3, senders) - two).norm().item<double>(), 1e-6 * two.norm().item<double>())
        << senders;
}

TEST_F(ResidualTest, ACheckpointWithoutResidualsBeginsWithZeros) {
  run(coded(layout(1, 1, 0), 2, std::nullopt), 0, 3);
  EXPECT_EQ(total(3, 2).norm().item<double>(), 0);
}

}  // namespace
}  // namespace trireme::checkpoint::checkpoint_test
