// Texture, allocation and detail gate against closed forms.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/harness/bound_model.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/families/arrcoc/blocks.h"
#include "trireme/families/arrcoc/blocks_pictures.h"
#include "trireme/families/arrcoc/blocks_scorers.h"
#include "trireme/families/arrcoc/blocks_texture.h"
#include "trireme/families/arrcoc/samples_questions.h"
#include "trireme/families/vlm/keys_checks.h"
#include "trireme/model/blocks/build.h"
#include "trireme/model/blocks/generate.h"

namespace trireme::blocks::arrcoc_test {
namespace {

std::vector<double> pixel(const at::Tensor& textures, std::int64_t row, std::int64_t column) {
  const at::Tensor values = textures[0].select(1, row).select(1, column).contiguous();
  return {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()};
}

TEST(Texture, AWhitePixelAndARedOne) {
  const at::Tensor white = at::full({1, 3, 8, 8}, 1.0, at::kDouble);
  const std::vector<double> seen = pixel(texture(white), 4, 4);
  const std::vector<double> wanted = {1, 1, 1, 1, .502, .502, .5, .5, 0., .5, .5625, .5625, .125};
  ASSERT_EQ(seen.size(), wanted.size());
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_NEAR(seen[i], wanted[i], 5e-4) << i;
  at::Tensor red = at::zeros({1, 3, 8, 8}, at::kDouble);
  red.select(1, 0).fill_(1);
  const std::vector<double> reds = pixel(texture(red), 4, 4);
  EXPECT_NEAR(reds[3], .5324, 1e-4);
  EXPECT_NEAR(reds[4], .8160, 2e-4);
  EXPECT_NEAR(reds[5], .7655, 2e-4);
}

TEST(Texture, EveryChannelIsWithinItsBoundsAndOfItsImageAlone) {
  const at::Tensor images = at::cat(
      {at::rand({2, 3, 16, 16}, at::kDouble), at::rand({1, 3, 16, 16}, at::kDouble).round()});
  const at::Tensor all = texture(images);
  EXPECT_EQ(all.sizes(), (at::IntArrayRef{3, 13, 16, 16}));
  EXPECT_GE(all.min().item<double>(), 0);
  EXPECT_LE(all.max().item<double>(), 1);
  EXPECT_TRUE(at::equal(texture(images.narrow(0, 1, 1)), all.narrow(0, 1, 1)));
  EXPECT_EQ(texture(at::rand({1, 3, 512, 512})).size(2), 256);
}

TEST(Texture, ItsFoveaMovesEccentricityAlone) {
  const at::Tensor images = at::rand({1, 3, 8, 8}, at::kDouble);
  const at::Tensor middle = texture(images), corner = texture(images, {0, 0});
  EXPECT_TRUE(at::equal(middle.narrow(1, 0, 12), corner.narrow(1, 0, 12)));
  // From the corner, the centres of the nearest and the furthest pixel.
  EXPECT_NEAR(corner[0][12][0][0].item<double>(), 1.0 / 16, 1e-12);
  EXPECT_NEAR(corner[0][12][7][7].item<double>(), 15.0 / 16, 1e-12);
}

TEST(Texture, GroupsOfChannelsAreItsChannels) {
  const at::Tensor images = at::rand({2, 3, 8, 8}, at::kDouble), all = texture(images, {0.2, 0.9});
  std::int64_t channels = 0;
  texture_by_groups(images, {0.2, 0.9}, [&](const ChannelGroup& group, const at::Tensor& one) {
    EXPECT_EQ(group.first, channels);
    EXPECT_LE(one.size(1), 4);
    EXPECT_TRUE(at::equal(one, all.narrow(1, group.first, group.count)));
    channels += group.count;
  });
  EXPECT_EQ(channels, kTextureChannels);
}

const Levels kMany{.least = 8, .most = 20, .budget = 2304};

TEST(Allocation, SoftCountsAddUpToTheBudget) {
  const at::Tensor z = at::randn({5, 16}, at::kDouble) * 2;
  for (const std::int64_t budget : {1100, 2304, 6000}) {
    const at::Tensor n = soft_counts(z, {.least = 8, .most = 20, .budget = budget}, 0.5);
    EXPECT_LT((n.sum(1) - static_cast<double>(budget)).abs().max().item<double>(), 1e-9);
  }
}

TEST(Allocation, ItsJacobianIsThatOfFiniteDifferencesAndItsRowsAndColumnsAddUpToNothing) {
  const Levels levels{.least = 2, .most = 8, .budget = 76};
  const at::Tensor z = at::tensor({0.3, -0.4, 0.9, 0.1}, at::kDouble).unsqueeze(0);
  constexpr double kStep = 1e-5;
  at::Tensor jacobian = at::zeros({4, 4}, at::kDouble);
  for (std::int64_t p = 0; p < 4; ++p) {
    const at::Tensor variable = z.clone().requires_grad_();
    soft_counts(variable, levels, 0.5)[0][p].backward();
    jacobian[p].copy_(variable.grad()[0]);
  }
  EXPECT_LT(jacobian.sum(0).abs().max().item<double>(), 1e-9);
  EXPECT_LT(jacobian.sum(1).abs().max().item<double>(), 1e-9);
  for (std::int64_t q = 0; q < 4; ++q) {
    at::Tensor step = at::zeros_like(z);
    step[0][q].fill_(kStep);
    const at::Tensor slope =
        (soft_counts(z + step, levels, 0.5) - soft_counts(z - step, levels, 0.5))[0] / (2 * kStep);
    EXPECT_LT((slope - jacobian.select(1, q)).abs().max().item<double>(), 1e-6) << q;
  }
}

TEST(Allocation, ABudgetOfItsOwnIsWhatCountsAddUpToAndHasAGradient) {
  const Levels levels{.least = 2, .most = 8, .budget = 76};
  const at::Tensor z = at::tensor({0.3, -0.4, 0.9, 0.1}, at::kDouble).unsqueeze(0);
  const at::Tensor budget = at::full({1, 1}, 40.5, at::kDouble).requires_grad_();
  const at::Tensor counts = soft_counts(z, levels, 0.5, budget);
  EXPECT_NEAR(counts.sum().item<double>(), 40.5, 1e-9);
  EXPECT_LE((hard_levels(counts, levels).square()).sum().item<std::int64_t>(), 40);
  constexpr double kStep = 1e-5;
  const at::Tensor slopes = (soft_counts(z, levels, 0.5, budget.detach() + kStep) -
                             soft_counts(z, levels, 0.5, budget.detach() - kStep)) /
                            (2 * kStep);
  EXPECT_NEAR(slopes.sum().item<double>(), 1, 1e-6);
  for (std::int64_t p = 0; p < 4; ++p) {
    budget.mutable_grad() = at::Tensor();
    soft_counts(z, levels, 0.5, budget)[0][p].backward();
    EXPECT_NEAR(budget.grad().item<double>(), slopes[0][p].item<double>(), 1e-6) << p;
  }
}

at::Tensor levels_of_z(const at::Tensor& z, std::int64_t budget) {
  const Levels levels{.least = 8, .most = 20, .budget = budget};
  return hard_levels(soft_counts(z, levels, 0.5), levels);
}

TEST(Allocation, EqualScoresGetEqualLevelsAndTheExtremesAreLeastAndMost) {
  const at::Tensor same = at::full({1, 16}, 0.7, at::kDouble);
  EXPECT_TRUE(at::equal(levels_of_z(same, 2304), at::full({1, 16}, 12, at::kLong)));
  const at::Tensor z = at::randn({3, 16}, at::kDouble);
  EXPECT_TRUE(at::equal(levels_of_z(z, 64 * 16), at::full({3, 16}, 8, at::kLong)));
  EXPECT_TRUE(at::equal(levels_of_z(z, 400 * 16), at::full({3, 16}, 20, at::kLong)));
}

TEST(Allocation, RegionsThatChangePlacesTakeTheirLevelsAlongWithinTheBudget) {
  const at::Tensor z = at::randn({4, 16}, at::kDouble);
  const at::Tensor order = at::arange(15, -1, -1, at::kLong);
  const at::Tensor levels = levels_of_z(z, 2304);
  EXPECT_TRUE(
      at::equal(levels_of_z(z.index_select(1, order), 2304), levels.index_select(1, order)));
  EXPECT_LE((levels * levels).sum(1).max().item<std::int64_t>(), 2304);
  EXPECT_GT(levels.max().item<std::int64_t>(), levels.min().item<std::int64_t>());
}

TEST(Regions, RowsSlotsAndPositionsFollowLevels) {
  const Regions regions(at::tensor({3, 2, 2, 2}, at::kLong).view({1, 4}),
                        {.least = 2, .most = 4, .budget = 21}, 2);
  EXPECT_EQ(regions.rows(), 16 + 9);
  EXPECT_TRUE(at::equal(regions.starts(), at::tensor({0, 4, 8, 12, 16, 25}, at::kInt)));
  EXPECT_EQ(regions.tokens().item<std::int64_t>(), 21);
  EXPECT_EQ(regions.tokens_of(at::zeros({1}, at::kLong)).item<std::int64_t>(), 9);
  const at::Tensor slots = regions.slots(23)[0];
  EXPECT_TRUE(at::equal(slots.narrow(0, 0, 9), at::arange(16, 25, at::kLong)));
  EXPECT_TRUE(at::equal(slots.narrow(0, 9, 12), at::arange(4, 16, at::kLong)));
  EXPECT_TRUE(at::equal(slots.narrow(0, 21, 2), at::full({2}, -1, at::kLong)));
  const at::Tensor positions = regions.positions(23, 1)[0];
  // The first cell of 3 in 4 tokens is centred at 4/6 - 1/2; region 1 begins 4 to the right.
  EXPECT_TRUE(at::equal(positions[0], at::tensor({0, 11, 11}, at::kLong)));
  EXPECT_TRUE(at::equal(positions[9], at::tensor({0, 32, 4 * 64 + 32}, at::kLong)));
  // Text goes on behind the image.
  EXPECT_TRUE(at::equal(positions[21], at::full({3}, 8 * 64, at::kLong)));
  EXPECT_TRUE(at::equal(positions[22], at::full({3}, 9 * 64, at::kLong)));
  EXPECT_EQ(regions.most().item<std::int64_t>(), 9);
}

TEST(Pictures, OfOneSizeAreCutAsThoseThatMayDiffer) {
  const at::Tensor images = at::rand({2, 3, 16, 16}, at::kDouble);
  const at::Tensor sizes = at::full({2, 2}, 16, at::kLong);
  const Pictures even(images, {}, 2), each(images, sizes, 2);
  const at::Tensor some = at::tensor({6, 1}, at::kLong);
  for (const std::int64_t side : {3, 4, 8, 11}) {
    EXPECT_TRUE(at::equal(even.seen(side), each.seen(side))) << side;
    EXPECT_TRUE(at::equal(even.seen(some, side), each.seen(side).index_select(0, some))) << side;
  }
}

// Left half 1, right half 3, upper half 10 more; what lies around it is never seen.
TEST(Pictures, AreSeenFromTheirOwnPixelsWhateverTheirShape) {
  at::Tensor images = at::full({1, 3, 12, 12}, 1000.0, at::kDouble);
  const at::Tensor picture = images.narrow(2, 0, 4).narrow(3, 0, 10);
  picture.fill_(1);
  picture.narrow(3, 5, 5).fill_(3);
  picture.narrow(2, 0, 2).add_(10);
  const Pictures pictures(images, at::tensor({4, 10}, at::kLong).view({1, 2}), 2);
  for (const std::int64_t side : {1, 2, 5, 8}) {
    const at::Tensor seen = pictures.seen(side);
    ASSERT_EQ(seen.sizes(), (at::IntArrayRef{4, 3, side, side}));
    const std::vector<double> wanted = {11, 13, 1, 3};
    for (std::int64_t p = 0; p < 4; ++p)
      EXPECT_LT((seen[p] - wanted[p]).abs().max().item<double>(), 1e-12) << side;
  }
}

TEST(DetailGate, ForwardIsBitwiseWithoutItAndBackwardIsTheWorthOfDetail) {
  const Regions regions(at::tensor({3, 2, 2, 4}, at::kLong).view({1, 4}),
                        {.least = 2, .most = 4, .budget = 33}, 2);
  const at::Tensor rows = at::randn({regions.rows(), 5}, at::kDouble);
  const at::Tensor loss_of = at::randn({regions.rows(), 5}, at::kDouble);
  const at::Tensor shares = at::rand({1, 4}, at::kDouble).requires_grad_();
  const at::Tensor gated = detail_gate(rows, shares, regions);
  EXPECT_TRUE(at::equal(gated, detail_gate(rows, shares.detach(), regions)));
  (gated * loss_of).sum().backward();
  const at::Tensor gradient = shares.grad()[0];
  EXPECT_EQ(gradient[1].item<double>(), 0);
  EXPECT_EQ(gradient[2].item<double>(), 0);
  // Region 0 of 3 x 3 against its 2 x 2: the middle cell is the mean of all four.
  EXPECT_NE(gradient[0].item<double>(), 0);
  at::Tensor flat = rows.clone();
  flat.narrow(0, 0, 4).copy_(at::full({4, 5}, 2.0, at::kDouble));
  const at::Tensor other = at::rand({1, 4}, at::kDouble).requires_grad_();
  (detail_gate(flat, other, regions) * loss_of).sum().backward();
  const double wanted =
      ((flat.narrow(0, 16, 9) - 2) * loss_of.narrow(0, 16, 9)).sum().item<double>();
  EXPECT_NEAR(other.grad()[0][0].item<double>(), wanted, 1e-12);
}

TEST(Scorers, FactsOfRegionsDoNotDependOnTheBatch) {
  config::Arrcoc arrcoc;
  arrcoc.grid = 2;
  const at::Tensor images = at::rand({3, 3, 16, 16}, at::kDouble);
  const RegionFacts all = region_facts(images, arrcoc);
  const RegionFacts one = region_facts(images.narrow(0, 2, 1), arrcoc);
  EXPECT_LT((all.statistics.narrow(0, 2, 1) - one.statistics).abs().max().item<double>(), 1e-14);
  EXPECT_LT((all.salience.narrow(0, 2, 1) - one.salience).abs().max().item<double>(), 1e-14);
  // One grey has no entropy, 32 of them equally often have all there can be.
  const RegionFacts grey = region_facts(at::full({1, 3, 16, 16}, 0.0, at::kDouble), arrcoc);
  EXPECT_LT(grey.entropy.abs().max().item<double>(), 1e-9);
  EXPECT_GT(all.entropy.min().item<double>(), 0.5);
  EXPECT_LE(all.entropy.max().item<double>(), 1);
}

// What is asked of the model for the next token is what its loss says of that token.
TEST(Generate, FromAPictureTheNextTokenIsThatOfTheLoss) {
  config::Job job;
  for (const char* set :
       {"model.family=arrcoc", "data.source=pairs", "data.path=x", "precision.compute=fp64",
        "vision.image=16", "vision.patch=4", "vision.hidden=16", "vision.heads=2",
        "vision.layers=1", "model.hidden=32", "model.heads=2", "model.layers=1", "model.ffn=48",
        "model.seq_len=24", "model.init_std=0.3", "arrcoc.grid=2", "arrcoc.sides=[1, 3]",
        "arrcoc.budget=14", "arrcoc.hidden=8"})
    config::apply_set(job, set);
  media::Image picture(14, 9);
  std::ranges::fill(picture.rgb, std::uint8_t{191});
  for (const char* decoder : {"arrcoc.decoder=llama", "arrcoc.decoder=gpt"}) {
    config::apply_set(job, decoder);
    const harness::BoundModel bound(build(config::resolve(job, 1, {})), at::kDouble);
    const exec::Model& model = bound.model();
    const auto inputs = [&](const std::vector<std::int64_t>& answered) {
      return loaders::region_prompt(config::resolve(job, 1, {}), picture, "why?", answered);
    };
    for (const std::vector<std::int64_t>& answered : {std::vector<std::int64_t>{}, {97, 98}}) {
      std::vector<at::Tensor> asked = inputs(answered);
      const at::Tensor said = next_logits(model, asked).log_softmax(0);
      // Only the last target is left, and says another token.
      asked[3] = at::where(asked[3] == config::kEndToken, 7, -100);
      const std::vector<at::Tensor> values = values_of(model, asked);
      std::vector<at::Tensor> reads;
      for (const plan::ValueId id : model.spec.program.nodes.back().reads)
        reads.push_back(values[id]);
      const at::Tensor loss = model.blocks.back()->forward(reads, {.training = false})[0];
      EXPECT_NEAR(loss.item<double>(), -said[7].item<double>(), 1e-10) << decoder;
    }
    EXPECT_FALSE(at::equal(next_logits(model, inputs({97})), next_logits(model, inputs({98}))));
  }
}

}  // namespace
}  // namespace trireme::blocks::arrcoc_test
