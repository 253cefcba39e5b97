// Blocks of V-JEPA 2: losses, packing, what frames see.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "tests/harness/bound_model.h"
#include "tests/harness/vjepa_jobs.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/loaders/source.h"
#include "trireme/families/jepa/blocks.h"
#include "trireme/families/jepa/blocks_tower.h"
#include "trireme/families/jepa_ac/blocks.h"
#include "trireme/families/vit/blocks_encoder.h"
#include "trireme/model/blocks/build.h"
#include "trireme/plan/compile/placement.h"

namespace trireme::blocks::jepa_test {
namespace {

using config::Family;
using Tensors = std::vector<at::Tensor>;

at::Tensor ints(std::vector<std::int64_t> values) { return torch::tensor(values); }
at::Tensor doubles(const std::vector<std::int64_t>& shape, std::uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
}

config::Job resolved(Family family, const std::vector<std::string>& sets = {}) {
  return config::resolve(harness::vjepa_job(family, sets), 1, {.classes = 8});
}

// One micro-batch through all nodes of a model.
class Forward {
 public:
  explicit Forward(const config::Job& job)
      : model_(build(job), at::kDouble), values_(program().values.size()) {}

  const plan::Program& program() const { return model_.model().spec.program; }
  void load(const Tensors& inputs) {
    const std::vector<plan::NodeId> writer = plan::writers(program());
    std::size_t next = 0;
    for (std::size_t value = 0; value < writer.size(); ++value)
      if (writer[value] < 0) values_[value] = inputs[next++];
  }
  void forward() {
    for (std::size_t n = 0; n < program().nodes.size(); ++n) {
      const plan::Node& node = program().nodes[n];
      Tensors inputs;
      for (const plan::ValueId id : node.reads) inputs.push_back(values_[id]);
      const Tensors outputs = model_.block(n).forward(inputs, {});
      for (std::size_t i = 0; i < outputs.size(); ++i) values_[node.writes[i]] = outputs[i];
    }
  }
  at::Tensor value(std::string_view name) const {
    for (std::size_t i = 0; i < values_.size(); ++i)
      if (program().values[i].name == name) return values_[i];
    return {};
  }
  harness::BoundModel& model() { return model_; }

 private:
  harness::BoundModel model_;
  Tensors values_;
};

TEST(Jepa, PackingPutsTargetsBehindTheirContexts) {
  // Two sequences: 0 2 | 1 3 and, of the next sample, 5 | 4 6 7.
  const Packing packing(ints({0, 2, 5}), ints({0, 2, 3}), ints({1, 3, 4, 6, 7}), ints({0, 2, 5}));
  EXPECT_TRUE(at::equal(packing.tokens, ints({0, 2, 1, 3, 5, 4, 6, 7})));
  EXPECT_TRUE(at::equal(packing.bounds.to(at::kLong), ints({0, 4, 8})));
  EXPECT_TRUE(at::equal(packing.target_rows, ints({2, 3, 5, 6, 7})));
  EXPECT_TRUE(at::equal(packing.target_masks, ints({0, 0, 1, 1, 1})));
  EXPECT_NEAR(packing.target_weights.sum().item<double>(), 1, 1e-15);
}

// A predictor that gives what is wanted has no loss; one that gives nothing has the mean distance of the normal.
TEST(Jepa, TheLossIsTheDistanceToNormedFeatures) {
  const std::int64_t d = 64;
  const at::Tensor features = doubles({1, 6, d}, 1) * 3 + 1;
  const at::Tensor context = ints({0}), targets = ints({1, 2, 3, 4, 5, 1, 2, 3, 4, 5});
  JepaLoss loss(1e-12, std::make_shared<Across>(config::Model{}));
  const at::Tensor eye = at::eye(d, at::kDouble);
  const auto value = [&](const at::Tensor& predicted, const at::Tensor& projection) {
    loss.bind({at::ones({d}, at::kDouble), at::zeros({d}, at::kDouble), projection,
               at::zeros({d}, at::kDouble)});
    return loss
        .forward({predicted, features, ints({0, 0}), ints({0, 1, 2}), targets, ints({0, 5, 10})},
                 {})[0]
        .item<double>();
  };
  const at::Tensor seen = at::zeros({1, d}, at::kDouble), rest = features[0].narrow(0, 1, 5);
  const at::Tensor same = at::cat({seen, rest, seen, rest});
  EXPECT_LT(value(same, eye), 1e-4);
  EXPECT_NEAR(value(same, 0 * eye), std::sqrt(2 / M_PI), 0.03);
  EXPECT_EQ(context.numel(), 1);
}

// Rows that are packed behind others see only their own sequence: one sample at a time gives the same losses.
TEST(Jepa, PackedSamplesEqualSingleOnes) {
  const config::Job many = resolved(Family::kJepa, {"run.micro_batch=3", "run.global_batch=3"});
  const config::Job one = resolved(Family::kJepa, {"run.micro_batch=1", "run.global_batch=3"});
  const loaders::Sources sources = loaders::open_sources(many, {});
  Forward together(many);
  together.load(sources.train->batch(0, 3));
  together.forward();
  double sum = 0;
  for (std::int64_t sample = 0; sample < 3; ++sample) {
    Forward alone(one);
    alone.load(sources.train->batch(sample, 1));
    alone.forward();
    sum += alone.value("loss").item<double>();
  }
  EXPECT_NEAR(together.value("loss").item<double>(), sum, 1e-12 * sum);
}

// Positions are relative: clips are the same moved by one patch, if all see all of them.
TEST(Jepa, ExactRotationsKeepScoresOfMovedTokens) {
  const at::Tensor q = doubles({1, 1, 32}, 1), k = doubles({1, 1, 32}, 2);
  const auto score = [&](RotaryPairs pairs, std::int64_t at) {
    const auto turned = [&](const at::Tensor& x, std::int64_t t) {
      return rotate(x, axial_rotary(ints({t, 2 * t, t}).unsqueeze(0), 32, pairs, at::kDouble));
    };
    return (turned(q, at + 3) * turned(k, at)).sum().item<double>();
  };
  for (std::int64_t at : {1, 5, 20}) {
    EXPECT_NEAR(score(RotaryPairs::kExact, at), score(RotaryPairs::kExact, 0), 1e-12);
    EXPECT_GT(std::abs(score(RotaryPairs::kCompat, at) - score(RotaryPairs::kCompat, 0)), 1e-3);
  }
}

// One axis of four channels, as the reference has it.
TEST(Jepa, RotationsHaveTheNumbersOfTheReference) {
  const at::Tensor x = torch::tensor({1.0, 2.0, 3.0, 4.0}, at::kDouble).view({1, 1, 4});
  const auto turned = [&](RotaryPairs pairs) {
    return rotate(x, axial_rotary(ints({1}).unsqueeze(0), 4, pairs, at::kDouble)).flatten();
  };
  const auto near = [](const at::Tensor& a, std::vector<double> b) {
    return at::allclose(a, torch::tensor(b, at::kDouble), 0, 5e-5);
  };
  EXPECT_TRUE(near(turned(RotaryPairs::kExact), {-1.1426, 1.9221, 2.9599, 4.0298}));
  EXPECT_TRUE(near(turned(RotaryPairs::kCompat), {-1.1426, 2.0099, -1.7450, 4.0298}));
  EXPECT_NEAR(turned(RotaryPairs::kExact).norm().item<double>(), 5.477226, 1e-6);
  EXPECT_NEAR(turned(RotaryPairs::kCompat).norm().item<double>(), 4.962817, 1e-6);
}

// Conditions turn by time alone: at row and column 0 the channels of these two axes stay.
TEST(JepaAc, ConditionsTurnByTimeAlone) {
  const at::Tensor positions = action_positions(3, 2, 2);
  EXPECT_EQ(positions.sizes(), (at::IntArrayRef{18, 3}));
  EXPECT_TRUE(at::equal(positions[6], ints({1, 0, 0})));
  EXPECT_TRUE(at::equal(positions[7], ints({1, 0, 0})));
  EXPECT_TRUE(at::equal(positions[11], ints({1, 1, 1})));
}

TEST(JepaAc, FramesSeeThemselvesAndAllBefore) {
  const std::int64_t tokens = 258, frames = 7;
  const ops::RowMask mask =
      ops::Mask::block_causal(tokens).rows(1, tokens * frames, tokens * frames);
  std::int64_t pairs = 0;
  for (std::int64_t row = 0; row < tokens * frames; ++row) {
    const ops::Interval seen = mask.seen(0, row, row);
    EXPECT_EQ(seen.begin, 0);
    pairs += seen.end - seen.begin;
  }
  EXPECT_EQ(pairs, 1'863'792);
}

// Another frame t changes what is predicted from frames t and later, and not a bit of what was before.
TEST(JepaAc, PredictionsDoNotSeeTheFuture) {
  const config::Job job =
      resolved(Family::kJepaAc, {"vision.frames=6", "run.global_batch=1", "action.rollout=1"});
  const Tensors inputs = loaders::open_sources(job, {}).train->batch(0, 1);
  Tensors changed = {inputs[0].clone(), inputs[1], inputs[2], inputs[3]};
  constexpr std::int64_t kFrame = 2, kPatches = 16;
  changed[0].select(2, kFrame).mul_(-1);
  const auto predicted = [&](const Tensors& one) {
    Forward run(job);
    run.load(one);
    run.forward();
    return run.value("predictor.out").view({5, kPatches, -1});
  };
  const at::Tensor before = predicted(inputs), after = predicted(changed);
  EXPECT_TRUE(at::equal(before.narrow(0, 0, kFrame), after.narrow(0, 0, kFrame)));
  for (std::int64_t frame = kFrame; frame < 5; ++frame)
    EXPECT_FALSE(at::equal(before[frame], after[frame]));
}

TEST(JepaAc, LossesAreThoseOfPredictionsAndOfRolls) {
  constexpr std::int64_t kFrames = 4, kPatches = 3, kWidth = 5;
  const at::Tensor real = doubles({2 * kFrames, kPatches, kWidth}, 1);
  const at::Tensor frames = real.view({2, kFrames, kPatches, kWidth});
  const auto rows = [&](std::int64_t first, std::int64_t count) {
    return frames.narrow(1, first, count).flatten(1, 2);
  };
  ActionLoss loss(kFrames);
  const auto value = [&](const Tensors& predictions, at::ArrayRef<double> weights = {1, 1}) {
    Tensors inputs = {real};
    inputs.insert(inputs.end(), predictions.begin(), predictions.end());
    inputs.push_back(at::tensor(weights));
    return loss.forward(inputs, {})[0].item<double>();
  };
  // The next frame itself.
  EXPECT_EQ(value({rows(1, 3), rows(2, 1)}), 0);
  // A first frame that is wrong by 1 counts in both; without rolls the second loss is its alone.
  at::Tensor wrong = rows(1, 3).clone();
  wrong.narrow(1, 0, kPatches).add_(1);
  EXPECT_NEAR(value({wrong, rows(2, 1)}), 2 * (1.0 / 3 + 1.0 / 2), 1e-12);
  EXPECT_NEAR(value({wrong}), 2 * (1.0 / 3 + 1), 1e-12);
  EXPECT_NEAR(value({rows(1, 3), rows(2, 1) + 1}), 2 * (1.0 / 2), 1e-12);
  EXPECT_NEAR(value({rows(1, 3), rows(2, 1) + 1}, {0, 1}), 1.0 / 2, 1e-12);
}

// Each frame alone, repeated: the order of frames does not matter to their features.
TEST(JepaAc, FramesAreSeenAlone) {
  const config::Job job = resolved(Family::kJepaAc, {"run.global_batch=1"});
  const Tensors inputs = loaders::open_sources(job, {}).train->batch(0, 1);
  const auto features = [&](const at::Tensor& clips) {
    Forward run(job);
    run.load({clips, inputs[1], inputs[2], inputs[3]});
    run.forward();
    return run.value("features");
  };
  const at::Tensor one = features(inputs[0]), turned = features(inputs[0].flip({2}));
  EXPECT_TRUE(at::allclose(one, turned.flip({0}), 0, 1e-12));
  EXPECT_NEAR(one.mean(-1).abs().max().item<double>(), 0, 1e-12);
}

}  // namespace
}  // namespace trireme::blocks::jepa_test
