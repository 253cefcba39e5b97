// An optimizer: SGD with momentum as a rule of elements. docs/extending.md quotes it.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "tests/extending/own_loop.h"
#include "trireme/optim/elementwise_loops.h"
#include "trireme/optim/elementwise_operators.h"

namespace trireme::extending::optimizer_test {
namespace {

// [rule]
// Polyak's momentum (1964), with g the scaled gradient and "momentum" m:
//   p -= lr * weight_decay * p,  m = b1 m + g,  p -= lr m
struct MomentumRule {
  static constexpr std::string_view kName = "Momentum";  // of messages
  static constexpr optim::ElementState kStates[] = {{"momentum", optim::Moment::kFirst}};

  template <typename T>
  struct Factors {
    T grad_scale, keep, beta, rate;
  };
  template <typename T>
  static Factors<T> factors(const optim::OptimizerOptions& options, const exec::UpdateArgs& args,
                            const exec::UpdateSegment& segment) {
    const double lr = args.lr * segment.lr;
    const double decay = optim::weight_decay(options, args, segment.decay);
    return {.grad_scale = static_cast<T>(args.grad_scale),
            .keep = static_cast<T>(1 - lr * decay),
            .beta = static_cast<T>(options.betas[0]),
            .rate = static_cast<T>(lr)};
  }
  template <typename T>
  TRIREME_SIMD_INLINE static void step(const Factors<T>& f, T& param, T grad, T (&states)[1]) {
    states[0] = f.beta * states[0] + f.grad_scale * grad;
    param = param * f.keep - f.rate * states[0];
  }
  // What a GPU runs. Gradients are scaled already.
  static void by_operators(const optim::OptimizerOptions& options, const exec::UpdateArgs& args,
                           const optim::WideSegments& part) {
    const double lr = args.lr * part.lr, decay = optim::weight_decay(options, args, part.decay);
    for (std::size_t i = 0; i < part.params.size(); ++i) {
      const at::Tensor& m = part.states[0][i];
      m.mul_(options.betas[0]).add_(part.grads[i]);
      part.params[i].mul_(1 - lr * decay).sub_(m, lr);
    }
  }
};

using Momentum = optim::Elementwise<MomentumRule>;
// [end]

constexpr std::int64_t kCount = 512, kBlock = 64;

struct Kind {
  at::ScalarType master, grads;
  bool int8 = false;
};
const Kind kKinds[] = {{at::kDouble, at::kDouble},
                       {at::kFloat, at::kBFloat16},
                       {at::kBFloat16, at::kFloat},
                       {at::kFloat, at::kFloat, true}};

at::Tensor normal(std::uint64_t seed) {
  return at::zeros({kCount}, at::kDouble)
      .normal_(0, 1, at::make_generator<at::CPUGeneratorImpl>(seed));
}

// Parameters and states after three updates of the elements [begin, end).
std::vector<at::Tensor> updated(const Kind& kind, std::int64_t begin, std::int64_t end,
                                bool operators = false) {
  const auto part = [&](std::uint64_t seed, at::ScalarType type) {
    return normal(seed).narrow(0, begin, end - begin).to(type);
  };
  const optim::OptimizerOptions options{.stochastic = kind.master == at::kBFloat16,
                                        .int8_states = kind.int8};
  Momentum momentum(options);
  const at::Tensor param = part(1, kind.master);
  std::vector<at::Tensor> states;
  for (const exec::StateSpec& state : momentum.states())
    states.push_back(at::zeros({(end - begin) / (state.per_block ? kBlock : 1)},
                               !state.type                ? kind.master
                               : state.type == DType::kU8 ? at::kByte
                                                          : at::kFloat));
  const std::vector<exec::UpdateSegment> all = {
      {.begin = 0, .end = end - begin, .decay = 1, .first = begin}};
  for (int step = 1; step <= 3; ++step) {
    const at::Tensor grad = part(100 + step, kind.grads);
    const exec::UpdateArgs args{
        .lr = 0.01, .grad_scale = 0.5, .step = step, .noise = 7u + step, .state_block = kBlock};
    if (operators)
      optim::update_by_operators<MomentumRule>(options, param, grad, states, all, args);
    else
      momentum.update(param, grad, states, all, args);
  }
  states.insert(states.begin(), param);
  return states;
}

TEST(OwnOptimizer, FollowsTheFormula) {
  double p = normal(1)[0].item<double>(), m = 0;
  for (int step = 1; step <= 3; ++step) {
    m = 0.9 * m + 0.5 * normal(100 + step)[0].item<double>();
    p = p * (1 - 0.01 * 0.1) - 0.01 * m;
  }
  EXPECT_NEAR(updated(kKinds[0], 0, kCount)[0][0].item<double>(), p, 1e-14);
}

TEST(OwnOptimizer, AnyCutGivesTheSameBits) {
  for (const Kind& kind : kKinds) {
    const std::vector<at::Tensor> whole = updated(kind, 0, kCount), left = updated(kind, 0, 192),
                                  right = updated(kind, 192, kCount);
    for (std::size_t i = 0; i < whole.size(); ++i)
      EXPECT_TRUE(at::equal(at::cat({left[i], right[i]}), whole[i]))
          << c10::toString(kind.master) << " " << i;
  }
}

TEST(OwnOptimizer, OperatorsDoTheSame) {
  for (const Kind& kind : {kKinds[0], kKinds[1]}) {
    const at::Tensor apart = updated(kind, 0, kCount)[0] - updated(kind, 0, kCount, true)[0];
    EXPECT_LT(apart.abs().max().item<double>(), 1e-6);
  }
}

TEST(OwnOptimizer, TrainsWithTheSameBitsUnderZero) {
  const Own own{.optimizer = [] { return std::make_unique<Momentum>(optim::OptimizerOptions{}); },
                .rate = [](std::int64_t) { return 0.05; }};
  const std::vector<double> one = losses(loop_job(1, {}), 1, own);
  EXPECT_LT(one.back(), one.front());
  EXPECT_EQ(one, losses(loop_job(4, {"parallel.dp_shard=4"}), 4, own));
  EXPECT_EQ(one, losses(loop_job(2, {"parallel.dp_shard=2", "parallel.zero=3"}), 2, own));
}

}  // namespace
}  // namespace trireme::extending::optimizer_test
