// Each op against its formula written with plain tensor operations in fp64, forward and backward.
#include <cmath>

#include "tests/ops/compare.h"
#include "trireme/base/error.h"
#include "trireme/ops/cross_entropy.h"
#include "trireme/ops/embedding.h"
#include "trireme/ops/feed_forward.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"
#include "trireme/ops/pointwise.h"

namespace trireme::ops::naive_test {
namespace {

TEST(Ops, Linear) {
  const Op formula = [](const Tensors& in) { return in[0].matmul(in[1].t()) + in[2]; };
  for (std::int64_t rows : {1, 4, 300})  // below and above one chunk of a bias's sum
    expect_equal([](const Tensors& in) { return ops::linear(in[0], in[1], in[2]); }, formula,
                 {normal({rows, 2, 19}, 1), normal({7, 19}, 2), normal({7}, 3)});
  expect_equal([](const Tensors& in) { return ops::linear(in[0], in[1]); },
               [](const Tensors& in) { return in[0].matmul(in[1].t()); },
               {normal({3, 2, 19}, 1), normal({7, 19}, 2)});
}

// With memory of its own type for gradients a parameter gets sums that were never rounded to bf16, added to
// what is there.
TEST(Ops, WideGradientsAreAddedInPlace) {
  const auto leaf = [](std::vector<std::int64_t> shape, std::uint64_t seed) {
    at::Tensor param = normal(shape, seed).to(at::kBFloat16).requires_grad_(true);
    param.mutable_grad() = at::ones(shape, at::kFloat);
    return param;
  };
  const at::Tensor x = normal({40, 16}, 1).to(at::kBFloat16);
  const at::Tensor tokens = at::arange(40, at::kLong).remainder(5);
  const at::Tensor weight = leaf({5, 16}, 2), bias = leaf({5}, 3), head = leaf({5, 16}, 4);
  const auto run = [&](const at::Tensor& w, const at::Tensor& b, const at::Tensor& h) {
    const at::Tensor rows = x.to(w.scalar_type()) + ops::embedding(tokens, w);
    ((ops::linear(rows, w, b).to(at::kDouble) * normal({40, 5}, 5)).sum() +
     linear_cross_entropy(rows, h, tokens))
        .backward();
  };
  run(weight, bias, head);
  const auto exact = [](const at::Tensor& param) {
    return param.detach().to(at::kDouble).requires_grad_(true);
  };
  const at::Tensor weight64 = exact(weight), bias64 = exact(bias), head64 = exact(head);
  run(weight64, bias64, head64);
  for (const auto& [actual, expected] :
       {std::pair(weight, weight64), std::pair(bias, bias64), std::pair(head, head64)}) {
    ASSERT_EQ(actual.grad().scalar_type(), at::kFloat);
    EXPECT_LT(distance(actual.grad() - 1, expected.grad()), roundings() * 5e-3);
    EXPECT_FALSE(at::equal(actual.grad(), actual.grad().to(at::kBFloat16).to(at::kFloat)));
  }
}

TEST(Ops, LayerNorm) {
  const Op formula = [](const Tensors& in) {
    const at::Tensor centred = in[0] - in[0].mean(-1, true);
    return centred / (centred.square().mean(-1, true) + 1e-5).sqrt() * in[1] + in[2];
  };
  for (std::int64_t width : {1, 7, 16, 67}) {  // below, at and across the lanes of a sum
    // LibTorch 1.13 takes the variance from the mean square.
    if (width == 1 && !has_own_loops()) continue;
    expect_equal([](const Tensors& in) { return layer_norm(in[0], in[1], in[2], 1e-5); }, formula,
                 {normal({3, 101, width}, 1) + 2, normal({width}, 2), normal({width}, 3)});
  }
}

TEST(Ops, RmsNorm) {
  const Op formula = [](const Tensors& in) {
    return in[0] / (in[0].square().mean(-1, true) + 1e-5).sqrt() * in[1];
  };
  expect_equal([](const Tensors& in) { return rms_norm(in[0], in[1], 1e-5); }, formula,
               {normal({5, 103, 67}, 1), normal({67}, 2)});
}

TEST(Ops, ResidualNorm) {
  const auto norm = [](const at::Tensor& x, const at::Tensor& gain) {
    return x / (x.square().mean(-1, true) + 1e-5).sqrt() * gain;
  };
  const auto layer = [](const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias) {
    const at::Tensor centred = x - x.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + 1e-5).sqrt() * gain + bias;
  };
  const auto both = [](const Branching& out) {
    return at::cat({out.stream, 3 * out.normed.value}, -1);
  };
  const Tensors in = {normal({3, 101, 67}, 1), normal({3, 101, 67}, 2), normal({67}, 3),
                      normal({67}, 4)};
  expect_equal([&](const Tensors& t) { return both(residual_norm(t[0], t[1], t[2], t[3], 1e-5)); },
               [&](const Tensors& t) {
                 return at::cat({t[0] + t[1], 3 * layer(t[0] + t[1], t[2], t[3])}, -1);
               },
               in);
  expect_equal([&](const Tensors& t) { return both(residual_norm(t[0], {}, t[1], {}, 1e-5)); },
               [&](const Tensors& t) {
                 return at::cat({t[0], 3 * norm(t[0], t[1])}, -1);
               },
               {in[0], in[2]});
  // One of the two results may go unused.
  expect_equal([&](const Tensors& t) { return residual_norm(t[0], t[1], t[2], {}, 1e-5).normed; },
               [&](const Tensors& t) { return norm(t[0] + t[1], t[2]); }, {in[0], in[1], in[2]});
  const at::Tensor x = in[0].clone().requires_grad_(true);
  residual_norm(x, in[1], in[2], {}, 1e-5).stream.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), at::ones_like(x)));
}

at::Tensor naive_gelu(const at::Tensor& x) {
  return 0.5 * x * (1 + (std::sqrt(2 / M_PI) * (x + 0.044715 * x.pow(3))).tanh());
}

TEST(Ops, GeluLinear) {
  expect_equal([](const Tensors& in) { return gelu_linear(in[0], in[1], in[2]); },
               [](const Tensors& in) { return naive_gelu(in[0]).matmul(in[1].t()) + in[2]; },
               {normal({3, 17, 41}, 1, 2), normal({5, 41}, 2), normal({5}, 3)});
  // Far out it is x and 0, without overflow on the way.
  const auto alone = [](const at::Tensor& x) {
    return gelu_linear(x.view({-1, 1}), at::ones({1, 1}), at::zeros({1})).view({-1});
  };
  const at::Tensor far = alone(at::tensor({-1e18f, -100.f, 100.f, 1e12f}));
  EXPECT_TRUE(at::allclose(far, at::tensor({0.f, 0.f, 100.f, 1e12f}))) << far;
  EXPECT_TRUE(std::isnan(alone(at::full({1}, NAN)).item<float>()));
}

TEST(Ops, SwigluLinear) {
  expect_equal(
      [](const Tensors& in) { return gated_linear(in[0], in[1], in[2]); },
      [](const Tensors& in) { return (in[0] * in[0].sigmoid() * in[1]).matmul(in[2].t()); },
      {normal({3, 17, 41}, 1, 2), normal({3, 17, 41}, 2), normal({5, 41}, 3)});
}

TEST(Ops, GegluLinear) {
  expect_equal(
      [](const Tensors& in) {
        return gated_linear(in[0], in[1], in[2], {}, {}, {}, Gate::kGeluTanh);
      },
      [](const Tensors& in) { return (naive_gelu(in[0]) * in[1]).matmul(in[2].t()); },
      {normal({3, 17, 41}, 1, 2), normal({3, 17, 41}, 2), normal({5, 41}, 3)});
}

TEST(Ops, GatedLinearWithABias) {
  expect_equal(
      [](const Tensors& in) {
        return gated_linear(in[0], in[1], in[2], {}, {}, {}, Gate::kSilu, in[3]);
      },
      [](const Tensors& in) { return (in[0] * in[0].sigmoid() * in[1]).matmul(in[2].t()) + in[3]; },
      {normal({3, 17, 41}, 1, 2), normal({3, 17, 41}, 2), normal({5, 41}, 3), normal({5}, 4)});
}

TEST(Ops, GainsFromOne) {
  expect_equal(
      [](const Tensors& t) {
        const Branching out =
            residual_norm(t[0], t[1], t[2], {}, 1e-5, {}, Keep::kYes, Gain::kFromOne);
        return at::cat({out.stream, 3 * out.normed.value}, -1);
      },
      [](const Tensors& t) {
        const at::Tensor x = t[0] + t[1];
        const at::Tensor unit = x / (x.square().mean(-1, true) + 1e-5).sqrt();
        return at::cat({x, 3 * unit * (1 + t[2])}, -1);
      },
      {normal({3, 101, 67}, 1), normal({3, 101, 67}, 2), normal({67}, 3)});
  // 1 is added before anything is rounded to bf16, which holds 8 bits.
  const at::Tensor x = normal({64, 96}, 4).to(at::kBFloat16),
                   gain = (normal({96}, 5) * 0.1).to(at::kBFloat16);
  const at::Tensor wide = x.to(at::kDouble);
  const at::Tensor exact =
      wide / (wide.square().mean(-1, true) + 1e-5).sqrt() * (1 + gain.to(at::kDouble));
  const at::Tensor off =
      (rms_norm(x, gain, 1e-5, {}, Gain::kFromOne).to(at::kDouble) - exact).abs();
  EXPECT_LT((off / exact.abs()).max().item<double>(), 1.01 / 256);
}

std::vector<double> frequencies(double theta, std::int64_t width) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < width / 2; ++i)
    all.push_back(std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(width)));
  return all;
}

TEST(Ops, RotaryTurnsPairsByPosition) {
  const std::int64_t tokens = 5, heads = 3, width = 6;
  const Op formula = [=](const Tensors& in) {
    Tensors rows;
    for (std::int64_t t = 0; t < tokens; ++t) {
      const at::Tensor x = in[0].select(1, t).view({2, heads, 2, width / 2});
      const at::Tensor angle = static_cast<double>(t) *
                               at::pow(100.0, at::arange(width / 2, at::kDouble) * (-2.0 / width));
      const at::Tensor a = x.select(2, 0), b = x.select(2, 1);
      rows.push_back(
          at::stack({a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()}, 2)
              .reshape({2, 1, heads * width}));
    }
    return at::cat(rows, 1);
  };
  expect_equal(
      [=](const Tensors& in) {
        const auto type = in[0].scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
        return rotary(in[0], rotary_table(9, frequencies(100, width), 1, type));
      },
      formula, {normal({2, tokens, heads * width}, 1)});
}

// Products of rotated queries and keys depend on the distance alone.
TEST(Ops, RotaryIsRelative) {
  const RotaryTable table = rotary_table(40, frequencies(10000, 8), 1, at::kDouble);
  const at::Tensor q = rotary(normal({1, 1, 8}, 1).expand({1, 40, 8}), table)[0];
  const at::Tensor k = rotary(normal({1, 1, 8}, 2).expand({1, 40, 8}), table)[0];
  const double first = q[3].dot(k[0]).item<double>();
  for (int t = 0; t < 37; ++t) EXPECT_NEAR(q[t + 3].dot(k[t]).item<double>(), first, 1e-13);
}

TEST(Ops, DropoutDropsItsShareByKey) {
  const at::Tensor x = at::ones({300, 333}, at::kDouble);
  const at::Tensor y = ops::dropout(x, 0.3, 5);
  EXPECT_NEAR(y.eq(0).to(at::kDouble).mean().item<double>(), 0.3, 0.01);
  EXPECT_NEAR(y.max().item<double>(), 1 / 0.7, 1e-12);
  EXPECT_TRUE(at::equal(y, ops::dropout(x, 0.3, 5)));
  EXPECT_FALSE(at::equal(y, ops::dropout(x, 0.3, 6)));
  EXPECT_TRUE(at::equal(y, ops::dropout(x.to(at::kBFloat16), 0.3, 5).ne(0).to(at::kDouble) / 0.7));
  EXPECT_TRUE(at::equal(ops::dropout(x, 0, 5), x));
  // Neighbours are independent: both of a pair survive with probability 0.49.
  const at::Tensor kept = y.ne(0).to(at::kDouble);
  for (int dim : {0, 1}) {
    const std::int64_t size = kept.size(dim) - 1;
    const at::Tensor pairs = kept.narrow(dim, 0, size) * kept.narrow(dim, 1, size);
    EXPECT_NEAR(pairs.mean().item<double>(), 0.49, 0.01);
  }
  const Tensors grads =
      results([](const Tensors& in) { return ops::dropout(in[0], 0.3, 5); }, {x}, at::kDouble);
  EXPECT_TRUE(at::equal(grads[1], y * normal({300, 333}, 99)));
}

TEST(Ops, Embedding) {
  const at::Tensor tokens = at::tensor({3, 0, 3, 3, 6, 0}, at::kLong).view({2, 3});
  expect_equal([=](const Tensors& in) { return ops::embedding(tokens, in[0]); },
               [=](const Tensors& in) { return in[0].index({tokens}); }, {normal({7, 5}, 1)});
  // A thousand gradients of 1 for one row: bf16 alone would stop at 256.
  at::Tensor table = at::zeros({2, 3}, at::kBFloat16).requires_grad_(true);
  ops::embedding(at::zeros({1000}, at::kLong), table).sum().backward();
  EXPECT_EQ(table.grad()[0][0].item<float>(), 1000);
  for (std::int64_t bad : {-1, 7})
    EXPECT_THROW(ops::embedding(at::full({1}, bad, at::kLong), normal({7, 5}, 1)), Error);
}

TEST(Ops, LinearCrossEntropy) {
  at::Tensor targets = at::tensor({3, 0, -100, 88, 6, -100}, at::kLong).view({2, 3});
  const at::Tensor valid = targets.ne(-100).to(at::kDouble).view({6, 1});
  const at::Tensor chosen = targets.clamp_min(0).view({6, 1});
  const auto loss = [=](const Tensors& in) { return linear_cross_entropy(in[0], in[1], targets); };
  const auto formula = [=](const Tensors& in) {
    const at::Tensor logits = in[0].view({6, 5}).matmul(in[1].t());
    return -(logits.log_softmax(1).gather(1, chosen) * valid).sum();
  };
  // In bf16 the logits are rounded before softmax.
  expect_equal(loss, formula, {normal({2, 3, 5}, 1), normal({89, 5}, 2)}, 2e-2);
  at::NoGradGuard no_grad;
  EXPECT_NEAR(loss({at::zeros({2, 3, 5}), at::zeros({89, 5})}).item<double>(), 4 * std::log(89.0),
              1e-5);
  // Large logits neither overflow nor lose the loss.
  const at::Tensor big = linear_cross_entropy(
      at::full({1, 1}, 1e4), at::tensor({1.f, -1.f}).view({2, 1}), at::zeros({1}, at::kLong));
  EXPECT_EQ(big.item<float>(), 0);
  for (std::int64_t bad : {-1, 89}) {
    targets[0][0] = bad;
    EXPECT_THROW(loss({at::zeros({2, 3, 5}), at::zeros({89, 5})}), Error);
  }
}

}  // namespace
}  // namespace trireme::ops::naive_test
