#include "trireme/optim/lion.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "trireme/optim/make_optimizer.h"

namespace trireme::optim::lion_test {
namespace {

constexpr std::int64_t kCount = 1024, kDecayed = 640, kBlock = 64;
constexpr int kUpdates = 4;

struct Kind {
  at::ScalarType master, grads;
  bool int8 = false;
};
const Kind kKinds[] = {{at::kDouble, at::kDouble},
                       {at::kFloat, at::kFloat},
                       {at::kFloat, at::kBFloat16},
                       {at::kBFloat16, at::kFloat},
                       {at::kFloat, at::kFloat, true}};

struct Shard {
  at::Tensor param;
  std::vector<at::Tensor> states;
};

at::Tensor normal(std::uint64_t seed) {
  return at::zeros({kCount}, at::kDouble)
      .normal_(0, 1, at::make_generator<at::CPUGeneratorImpl>(seed));
}

OptimizerOptions options_of(const Kind& kind) {
  return {
      .betas = {0.9, 0.99}, .stochastic = kind.master == at::kBFloat16, .int8_states = kind.int8};
}

// kUpdates updates of the elements [begin, end) of one flat unit, the first kDecayed of which decay.
Shard train(const Kind& kind, std::int64_t begin, std::int64_t end, bool operators = false) {
  const auto part = [&](const at::Tensor& whole, at::ScalarType type) {
    return whole.narrow(0, begin, end - begin).to(type).clone();
  };
  const OptimizerOptions options = options_of(kind);
  const auto lion = make_optimizer(config::Optimizer::kLion, options);
  Shard shard{part(normal(1), kind.master), {}};
  for (const exec::StateSpec& state : lion->states())
    shard.states.push_back(at::zeros({state.per_block ? (end - begin) / kBlock : end - begin},
                                     !state.type                ? kind.master
                                     : state.type == DType::kU8 ? at::kByte
                                                                : at::kFloat));
  const std::int64_t cut = std::clamp(kDecayed - begin, std::int64_t{0}, end - begin);
  const std::vector<exec::UpdateSegment> segments = {
      {.begin = 0, .end = cut, .decay = 1, .first = begin},
      {.begin = cut, .end = end - begin, .decay = 0, .first = begin + cut}};
  for (int step = 1; step <= kUpdates; ++step) {
    const at::Tensor grad = part(normal(100 + step), kind.grads);
    const exec::UpdateArgs args{.lr = 0.01 * step,
                                .grad_scale = 0.5,
                                .step = step,
                                .noise = 7u + step,
                                .state_block = kBlock};
    if (operators)
      update_by_operators<LionRule>(options, shard.param, grad, shard.states, segments, args);
    else
      lion->update(shard.param, grad, shard.states, segments, args);
  }
  return shard;
}

TEST(Lion, FollowsTheFormulaInFp64) {
  const Shard shard = train(kKinds[0], 0, kCount);
  for (std::int64_t i = 0; i < kCount; ++i) {
    double p = normal(1)[i].item<double>(), m = 0;
    for (int step = 1; step <= kUpdates; ++step) {
      const double g = 0.5 * normal(100 + step)[i].item<double>(), u = 0.9 * m + (1 - 0.9) * g,
                   lr = 0.01 * step;
      p = p * (i < kDecayed ? 1 - lr * 0.1 : 1.0) - (u > 0 ? lr : -lr);
      m = 0.99 * m + (1 - 0.99) * g;
    }
    ASSERT_NEAR(shard.param[i].item<double>(), p, 1e-14) << i;
    ASSERT_NEAR(shard.states[0][i].item<double>(), m, 1e-14) << i;
  }
}

TEST(Lion, AnyCutGivesTheSameBits) {
  for (const Kind& kind : kKinds) {
    const Shard whole = train(kind, 0, kCount);
    for (const std::int64_t cut : {64L, 576L, 704L}) {
      const Shard left = train(kind, 0, cut), right = train(kind, cut, kCount);
      EXPECT_TRUE(at::equal(at::cat({left.param, right.param}), whole.param)) << cut;
      for (std::size_t s = 0; s < whole.states.size(); ++s)
        EXPECT_TRUE(at::equal(at::cat({left.states[s], right.states[s]}), whole.states[s])) << cut;
    }
  }
}

// Of a moment near 0 the sign may differ by the last bit, seldom.
TEST(Lion, OperatorsDoTheSame) {
  for (const Kind& kind : kKinds) {
    const at::Tensor apart =
        (train(kind, 0, kCount).param - train(kind, 0, kCount, true).param).to(at::kDouble).abs();
    EXPECT_LT(apart.gt(1e-5).to(at::kDouble).mean().item<double>(), 0.02)
        << c10::toString(kind.master);
  }
}

}  // namespace
}  // namespace trireme::optim::lion_test
