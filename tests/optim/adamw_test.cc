#include "trireme/optim/adamw.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

namespace trireme::optim::adamw_test {
namespace {

using exec::UpdateSegment;

const OptimizerOptions kOptions{.betas = {0.9, 0.95}, .eps = 1e-8, .weight_decay = 0.1};

struct Shard {
  at::Tensor param;
  std::vector<at::Tensor> states;
};

at::Tensor normal(std::int64_t count, at::ScalarType type, std::uint64_t seed) {
  return at::zeros({count}, at::TensorOptions().dtype(at::kDouble))
      .normal_(0, 1, at::make_generator<at::CPUGeneratorImpl>(seed))
      .to(type);
}

constexpr std::int64_t kCount = 203;
constexpr std::int64_t kDecayed = 120;  // the rest does not decay

// Five updates of the elements [begin, end) of one flat unit.
Shard train(at::ScalarType type, std::int64_t begin, std::int64_t end) {
  AdamW adam(kOptions);
  const auto part = [&](const at::Tensor& whole) {
    return whole.narrow(0, begin, end - begin).clone();
  };
  Shard shard{part(normal(kCount, type, 1)), {}};
  for (int s = 0; s < 2; ++s) shard.states.push_back(at::zeros_like(shard.param));
  const std::int64_t cut = std::clamp(kDecayed - begin, std::int64_t{0}, end - begin);
  const std::vector<UpdateSegment> segments = {{.begin = 0, .end = cut, .decay = 1},
                                               {.begin = cut, .end = end - begin, .decay = 0}};
  for (int step = 1; step <= 5; ++step)
    adam.update(shard.param, part(normal(kCount, type, 100 + step)), shard.states, segments,
                {.lr = 0.01 * step, .grad_scale = 0.37, .step = step});
  return shard;
}

TEST(AdamW, FollowsTheFormulaInFp64) {
  const Shard shard = train(at::kDouble, 0, kCount);
  const at::Tensor start = normal(kCount, at::kDouble, 1);
  for (std::int64_t i = 0; i < kCount; ++i) {
    double p = start[i].item<double>(), m = 0, v = 0;
    for (int step = 1; step <= 5; ++step) {
      const double lr = 0.01 * step;
      const double g = 0.37 * normal(kCount, at::kDouble, 100 + step)[i].item<double>();
      if (i < kDecayed) p -= lr * 0.1 * p;
      m = 0.9 * m + 0.1 * g;
      v = 0.95 * v + 0.05 * g * g;
      const double m_hat = m / (1 - std::pow(0.9, step));
      const double v_hat = v / (1 - std::pow(0.95, step));
      p -= lr * m_hat / (std::sqrt(v_hat) + 1e-8);
    }
    EXPECT_NEAR(shard.param[i].item<double>(), p, 1e-15 * std::max(1.0, std::abs(p))) << i;
  }
}

TEST(AdamW, AnyCutGivesTheSameBits) {
  for (at::ScalarType type : {at::kFloat, at::kDouble}) {
    const Shard whole = train(type, 0, kCount);
    for (std::int64_t cut : {1, 7, 16, 33, 119, 120, 121, 200, 202}) {
      const Shard left = train(type, 0, cut);
      const Shard right = train(type, cut, kCount);
      EXPECT_TRUE(at::equal(at::cat({left.param, right.param}), whole.param)) << cut;
      for (int s = 0; s < 2; ++s)
        EXPECT_TRUE(at::equal(at::cat({left.states[s], right.states[s]}), whole.states[s])) << cut;
    }
  }
}

TEST(AdamW, OperatorsDoTheSame) {
  for (const auto& [type, tolerance] :
       {std::pair(at::kDouble, 1e-13), std::pair(at::kFloat, 1e-6)}) {
    const Shard ours = train(type, 0, kCount);
    Shard theirs{normal(kCount, type, 1), {}};
    for (int s = 0; s < 2; ++s) theirs.states.push_back(at::zeros_like(theirs.param));
    for (int step = 1; step <= 5; ++step)
      update_by_operators<AdamWRule>(
          kOptions, theirs.param, normal(kCount, type, 100 + step), theirs.states,
          std::vector<UpdateSegment>{{.begin = 0, .end = kDecayed, .decay = 1},
                                     {.begin = kDecayed, .end = kCount}},
          {.lr = 0.01 * step, .grad_scale = 0.37, .step = step});
    EXPECT_TRUE(at::allclose(theirs.param, ours.param, tolerance, tolerance)) << type;
    for (int s = 0; s < 2; ++s)
      EXPECT_TRUE(at::allclose(theirs.states[s], ours.states[s], tolerance, tolerance)) << type;
  }
}

// An update's own weight decay goes before the optimizer's, in loops and by operators; what does not decay has none.
TEST(AdamW, AnUpdateMayBringItsWeightDecay) {
  const std::vector<UpdateSegment> segments = {{.begin = 0, .end = 2, .decay = 1},
                                               {.begin = 2, .end = 3}};
  const exec::UpdateArgs args{.lr = 0.1, .weight_decay = 0.5, .step = 1};
  const at::Tensor grad = at::zeros({3}, at::kDouble);
  for (const bool loops : {true, false}) {
    at::Tensor param = at::ones({3}, at::kDouble);
    std::vector<at::Tensor> states = {at::zeros_like(param), at::zeros_like(param)};
    AdamW adam(kOptions);
    if (loops)
      adam.update(param, grad, states, segments, args);
    else
      update_by_operators<AdamWRule>(kOptions, param, grad, states, segments, args);
    EXPECT_DOUBLE_EQ(param[1].item<double>(), 0.95);
    EXPECT_EQ(param[2].item<double>(), 1);
  }
}

// Segments with learning rates of their own are updated as shards of their own would be, in all kinds of states.
TEST(AdamW, SegmentsMayHaveTheirLearningRates) {
  struct Kind {
    at::ScalarType type;
    bool codes, loops;
  };
  for (const Kind& kind : {Kind{at::kDouble, false, true}, Kind{at::kDouble, false, false},
                           Kind{at::kBFloat16, false, true}, Kind{at::kFloat, true, true}}) {
    constexpr std::int64_t kBlock = 64;
    OptimizerOptions options = kOptions;
    options.int8_states = kind.codes;
    // Moves of all elements after one update whose second half has a rate of its own.
    const auto moved = [&](double base, double rate) {
      AdamW adam(options);
      at::Tensor param = at::zeros({2 * kBlock}, kind.type);
      std::vector<at::Tensor> states;
      for (const exec::StateSpec& spec : adam.states())
        states.push_back(spec.per_block
                             ? at::zeros({2}, at::kFloat)
                             : at::zeros({2 * kBlock}, kind.codes ? at::kByte : kind.type));
      const std::vector<UpdateSegment> segments = {
          {.begin = 0, .end = kBlock, .decay = 1},
          {.begin = kBlock, .end = 2 * kBlock, .decay = 1, .first = kBlock, .lr = rate}};
      const exec::UpdateArgs args{.lr = base, .step = 1, .state_block = kBlock};
      const at::Tensor grad = normal(2 * kBlock, kind.codes ? at::kFloat : kind.type, 5);
      if (kind.loops)
        adam.update(param, grad, states, segments, args);
      else
        update_by_operators<AdamWRule>(options, param, grad, states, segments, args);
      return param;
    };
    const at::Tensor mixed = moved(0.25, 0.5), outer = moved(0.25, 1), inner = moved(0.125, 1);
    EXPECT_TRUE(at::equal(mixed.narrow(0, 0, kBlock), outer.narrow(0, 0, kBlock))) << kind.type;
    EXPECT_TRUE(at::equal(mixed.narrow(0, kBlock, kBlock), inner.narrow(0, kBlock, kBlock)))
        << kind.type;
    EXPECT_FALSE(at::equal(outer, inner));
  }
}

TEST(AdamW, PaddingStaysAsItIs) {
  AdamW adam(kOptions);
  at::Tensor param = at::zeros({8});
  std::vector<at::Tensor> states = {at::zeros({8}), at::zeros({8})};
  adam.update(param, at::ones({8}), states,
              std::vector<UpdateSegment>{{.begin = 0, .end = 5, .decay = 1}},
              {.lr = 0.1, .step = 1});
  EXPECT_EQ(param.ne(0).sum().item<int>(), 5);
  EXPECT_EQ(states[0].ne(0).sum().item<int>(), 5);
  EXPECT_EQ(states[1].narrow(0, 5, 3).sum().item<float>(), 0);
}

}  // namespace
}  // namespace trireme::optim::adamw_test
