// Routers, chunks and scans against their formulas, computed one row at a time.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <string>
#include <vector>

#include "trireme/config/rope.h"
#include "trireme/exec/units/initial_values.h"
#include "trireme/families/hnet/blocks_chunking.h"
#include "trireme/families/hnet/blocks_mamba.h"
#include "trireme/families/hnet/blocks_stages.h"
#include "trireme/families/hnet/model.h"
#include "trireme/families/hnet/model_layers.h"

namespace trireme::blocks::chunking_test {
namespace {

const auto kF64 = at::TensorOptions().dtype(at::kDouble);

at::Tensor row(std::vector<double> numbers) { return at::tensor(numbers, kF64); }

at::Tensor drawn(std::vector<std::int64_t> shape, std::uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), kF64);
}

double apart(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

// Sequences of these lengths.
at::Tensor starts_of(const std::vector<std::int64_t>& lengths) {
  std::vector<double> starts;
  for (const std::int64_t length : lengths)
    for (std::int64_t i = 0; i < length; ++i) starts.push_back(i == 0);
  return row(starts);
}

// Oracle 9 of the specification.
TEST(Chunking, RoutesSmoothesAndUpsamplesAsWorkedOutByHand) {
  const at::Tensor x = row({1, 0, 1, 0, 0, 1, 0, -1, 1, -1}).view({5, 2});
  const at::Tensor identity = at::eye(2, kF64);
  const Sequences sequences(starts_of({5}));
  const Routing routing = route(x, identity, identity, sequences);
  EXPECT_LT(apart(routing.p, row({1, 0, 0.5, 1, (1 - std::sqrt(0.5)) / 2})), 1e-15);
  EXPECT_NEAR(routing.p[4].item<double>(), 0.146447, 1e-6);
  EXPECT_LT(apart(routing.boundary.to(at::kDouble), row({1, 0, 0, 1, 0})), 1e-15);
  const at::Tensor firsts = chunk_rows(routing.boundary);
  const Sequences chunks(starts_of({5}).index_select(0, firsts));
  EXPECT_EQ(chunks.bounds, (std::vector<std::int64_t>{0, 2}));
  const at::Tensor z =
      smoothed(row({1, 2}).view({2, 1}), routing.p.index_select(0, firsts), chunks);
  EXPECT_LT(apart(z, row({0.9999, 0.0001 * 0.9999 + 0.9999 * 2}).view({2, 1})), 1e-14);
  const at::Tensor up = z.index_select(0, chunk_of_rows(routing.boundary)).flatten();
  EXPECT_LT(apart(up, row({0.9999, 0.9999, 0.9999, 1.9999, 1.9999})), 1e-6);
}

// Oracle 10.
TEST(Chunking, TurnsIntoNothingWhereRowsAlternateAndIntoOneChunkWhereTheyDoNot) {
  const at::Tensor identity = at::eye(3, kF64), x = drawn({1, 3}, 1);
  const Sequences sequences(starts_of({6, 4}));
  const at::Tensor signs = row({1, -1, 1, -1, 1, -1, 1, -1, 1, -1}).unsqueeze(1);
  const Routing all = route(signs * x, identity, identity, sequences);
  EXPECT_LT(apart(all.p, at::ones({10}, kF64)), 1e-15);
  EXPECT_EQ(chunk_rows(all.boundary).size(0), 10);
  const at::Tensor z = drawn({10, 3}, 2);
  const at::Tensor blend = smoothed(z, all.p, sequences);
  for (const std::int64_t t : {1, 5, 7})
    EXPECT_LT(apart(blend[t], 0.9999 * z[t] + 0.0001 * blend[t - 1]), 1e-15);
  for (const std::int64_t t : {0, 6}) EXPECT_LT(apart(blend[t], 0.9999 * z[t]), 1e-15);

  const Routing none = route(x.expand({10, 3}), identity, identity, sequences);
  EXPECT_TRUE(chunk_rows(none.boundary).equal(at::tensor({0, 6}, at::kLong)));
}

// Oracle 11.
TEST(RatioLoss, HasTheValuesAndSlopesOfItsFormula) {
  const Sequences one(starts_of({12}));
  const auto loss = [&](const at::Tensor& p, std::int64_t boundaries, double ratio) {
    at::Tensor boundary = at::zeros({12}, kF64);
    boundary.narrow(0, 0, boundaries).fill_(1);
    return ratio_losses(p, boundary, one, ratio);
  };
  for (const double g : {0.0, 0.1, 0.7})  // F = 1/N
    EXPECT_NEAR(loss(at::full({12}, g, kF64), 4, 3).item<double>(), 1, 1e-14);
  EXPECT_NEAR(loss(at::ones({12}, kF64), 12, 3).item<double>(), 3, 1e-14);
  EXPECT_NEAR(loss(at::zeros({12}, kF64), 0, 3).item<double>(), 1.5, 1e-14);
  for (const auto& [ratio, slope] :
       {std::pair(3.0, 0.75), std::pair(6.0, 2.4), std::pair(16.0, 112.0 / 15)}) {
    at::Tensor p = at::full({12}, 0.3, kF64).set_requires_grad(true);
    loss(p, 6, ratio).sum().backward();
    EXPECT_NEAR(p.grad().sum().item<double>(), slope, 1e-13) << ratio;
  }
}

TEST(RatioLoss, IsEachSequencesOwn) {
  const at::Tensor p = at::rand({9}, at::make_generator<at::CPUGeneratorImpl>(3), kF64);
  const at::Tensor boundary = (p > 0.5).to(at::kDouble);
  const at::Tensor both = ratio_losses(p, boundary, Sequences(starts_of({5, 4})), 4);
  const auto alone = [&](std::int64_t first, std::int64_t rows) {
    return ratio_losses(p.narrow(0, first, rows), boundary.narrow(0, first, rows),
                        Sequences(starts_of({rows})), 4);
  };
  EXPECT_LT(apart(both[0], alone(0, 5)), 1e-15);
  EXPECT_LT(apart(both[1], alone(5, 4)), 1e-15);
}

// Oracle 12: its value is 1, its gradient that of the product it stands for.
TEST(StraightThrough, PassesTheGradientOfTheConfidence) {
  const at::Tensor y = drawn({4, 3}, 4), upstream = drawn({4, 3}, 5);
  const at::Tensor boundary = row({1, 0, 0, 1});
  at::Tensor p = row({0.9, 0.2, 0.45, 0.6}).set_requires_grad(true);
  const at::Tensor sure = straight_through_confidence(p, boundary);
  EXPECT_TRUE(sure.equal(at::ones({4}, kF64)));
  (y * sure.unsqueeze(1) * upstream).sum().backward();
  const at::Tensor expected = (y * upstream).sum(1) * row({1, -1, -1, 1});
  EXPECT_LT(apart(p.grad(), expected), 1e-14);
}

TEST(Chunking, GradientsOfTheRouterAreThoseOfDifferences) {
  const at::Tensor x = drawn({7, 4}, 6), query = drawn({4, 4}, 7), weights = drawn({7}, 8);
  const Sequences sequences(starts_of({4, 3}));
  const auto value = [&](const at::Tensor& rows) {
    return (route(rows, query, at::eye(4, kF64), sequences).p * weights).sum();
  };
  at::Tensor leaf = x.clone().set_requires_grad(true);
  value(leaf).backward();
  for (std::int64_t t = 0; t < 7; ++t)
    for (std::int64_t d = 0; d < 4; ++d) {
      at::Tensor up = x.clone(), down = x.clone();
      up[t][d] += 1e-6;
      down[t][d] -= 1e-6;
      EXPECT_NEAR(leaf.grad()[t][d].item<double>(),
                  ((value(up) - value(down)) / 2e-6).item<double>(), 1e-8);
    }
}

// S <- exp(l) S + x in^T, y = S out, one row after the other.
at::Tensor naive_scan(const Scan& terms, const Sequences& sequences) {
  std::vector<at::Tensor> rows;
  at::Tensor state;
  for (std::int64_t t = 0; t < terms.x.size(0); ++t) {
    const at::Tensor added = terms.x[t].unsqueeze(2) * terms.in[t];
    state = sequences.position[t].item<std::int64_t>() == 0
                ? added
                : terms.log_decay[t].exp().view({-1, 1, 1}) * state + added;
    rows.push_back(at::matmul(state, terms.out[t]));
  }
  return at::stack(rows);
}

TEST(Scan, IsTheRecurrenceWhateverThePieces) {
  const Sequences sequences(starts_of({11, 1, 6}));
  const auto terms = [] {
    Scan scan{.log_decay = -drawn({18, 2}, 9).abs(),
              .x = drawn({18, 2, 3}, 10),
              .in = drawn({18, 5}, 11),
              .out = drawn({18, 5}, 12)};
    for (at::Tensor* tensor : {&scan.log_decay, &scan.x, &scan.in, &scan.out})
      tensor->set_requires_grad(true);
    return scan;
  };
  const at::Tensor upstream = drawn({18, 2, 3}, 13);
  const Scan one_by_one = terms();
  const at::Tensor expected = naive_scan(one_by_one, sequences);
  (expected * upstream).sum().backward();
  for (const std::int64_t piece : {1, 4, 128}) {
    const Scan pieces = terms();
    const at::Tensor y = scan(pieces, sequences, piece);
    EXPECT_LT(apart(y, expected), 1e-13) << piece;
    (y * upstream).sum().backward();
    EXPECT_LT(apart(pieces.log_decay.grad(), one_by_one.log_decay.grad()), 1e-12) << piece;
    EXPECT_LT(apart(pieces.x.grad(), one_by_one.x.grad()), 1e-12) << piece;
    EXPECT_LT(apart(pieces.in.grad(), one_by_one.in.grad()), 1e-12) << piece;
    EXPECT_LT(apart(pieces.out.grad(), one_by_one.out.grad()), 1e-12) << piece;
  }
}

TEST(Scan, StaysFiniteWhereEverythingIsForgotten) {
  const Sequences sequences(starts_of({300}));
  at::Tensor x = at::ones({300, 1, 2}, at::kFloat).set_requires_grad(true);
  const at::Tensor one = at::ones({300, 1}, at::kFloat);
  const at::Tensor y = scan({at::full({300, 1}, -50.0, at::kFloat), x, one, one}, sequences);
  y.sum().backward();
  EXPECT_LT(apart(y.detach(), at::ones({300, 1, 2}, at::kFloat)), 1e-6);
  EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
}

struct MambaNumbers {
  explicit MambaNumbers(std::int64_t d) : sizes(d) {
    params = {.in = 0.3 * drawn({sizes.projected(), d}, 21),
              .taps = drawn({sizes.convolved(), 1, 4}, 22),
              .taps_bias = drawn({sizes.convolved()}, 23),
              .step_bias = drawn({sizes.heads}, 27) - 4,
              .log_rate = drawn({sizes.heads}, 28) + 1,
              .skip = drawn({sizes.heads}, 24),
              .norm = drawn({sizes.inner}, 25),
              .out = drawn({d, sizes.inner}, 26)};
  }
  model::Mamba sizes;
  MambaParams params;
};

// One sequence, by the letter: all numbers one by one.
at::Tensor naive_mamba(const at::Tensor& u, const MambaNumbers& numbers) {
  const model::Mamba& sizes = numbers.sizes;
  const MambaParams& params = numbers.params;
  const std::int64_t rows = u.size(0), width = 64, state = model::Mamba::kState;
  const at::Tensor projected = at::matmul(u, params.in.t());
  const at::Tensor given = projected.narrow(1, sizes.inner, sizes.convolved());
  at::Tensor active = at::zeros_like(given), y = at::zeros({rows, sizes.inner}, kF64);
  for (std::int64_t t = 0; t < rows; ++t) {
    at::Tensor sum = params.taps_bias.clone();
    for (std::int64_t back = 0; back < 4 && back <= t; ++back)
      sum += params.taps.select(2, 3 - back).squeeze(1) * given[t - back];
    active[t] = sum * at::sigmoid(sum);
  }
  for (std::int64_t h = 0; h < sizes.heads; ++h) {
    at::Tensor memory = at::zeros({width, state}, kF64);
    for (std::int64_t t = 0; t < rows; ++t) {
      const double raw = projected[t][sizes.inner + sizes.convolved() + h].item<double>() +
                         params.step_bias[h].item<double>();
      const double step = std::log1p(std::exp(raw));
      const double decay = std::exp(-std::exp(params.log_rate[h].item<double>()) * step);
      const at::Tensor x = active[t].narrow(0, h * width, width);
      memory = decay * memory +
               step * x.unsqueeze(1) * active[t].narrow(0, sizes.inner, state).unsqueeze(0);
      y[t].narrow(0, h * width, width) =
          at::matmul(memory, active[t].narrow(0, sizes.inner + state, state)) + params.skip[h] * x;
    }
  }
  const at::Tensor z = projected.narrow(1, 0, sizes.inner);
  const at::Tensor gated = y * z * at::sigmoid(z);
  const at::Tensor norm = (gated.square().mean(1, true) + 1e-5).rsqrt();
  return at::matmul(gated * norm * params.norm, params.out.t());
}

TEST(Mamba, IsItsRecurrenceInEachSequence) {
  const MambaNumbers numbers(32);
  const at::Tensor u = drawn({9, 32}, 27);
  const at::Tensor y = mamba(u, numbers.params, Sequences(starts_of({6, 3})), 1e-5);
  const double scale = y.abs().max().item<double>();
  EXPECT_LT(apart(y.narrow(0, 0, 6), naive_mamba(u.narrow(0, 0, 6), numbers)) / scale, 1e-12);
  EXPECT_LT(apart(y.narrow(0, 6, 3), naive_mamba(u.narrow(0, 6, 3), numbers)) / scale, 1e-12);
}

// Initial values of all Mamba-2 mixers' parameters of this kind in a stage of two blocks, block by block.
std::vector<at::Tensor> initial_of(const std::string& kind, std::int64_t hidden) {
  const model::HnetParams params({{.encoder = "mm", .hidden = hidden}}, 0.02);
  std::vector<at::Tensor> values;
  for (const std::size_t index : {0, 1}) {
    const model::BlockLayers block = params.block(0, false, index);
    for (const model::ParamSpec& param : block.params)
      if (param.name.ends_with("mixer." + kind))
        values.push_back(exec::initial_values(param, 0, param.numel(),
                                              exec::initial_generator(param, /*seed=*/7)));
  }
  return values;
}

double correlation(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a - a.mean(), y = b - b.mean();
  return ((x * y).mean() / (x.square().mean() * y.square().mean()).sqrt()).item<double>();
}

// Quantiles of the reference's ranges: steps log-uniform in [1e-3, 0.1], rates uniform in [1, 16], drawn independently.
TEST(Mamba, StepsAndRatesBeginAsIndependentDraws) {
  constexpr std::int64_t kHeads = 2000, kHidden = kHeads * 32;
  const auto biases = initial_of("dt_bias", kHidden), rates = initial_of("A_log", kHidden);
  ASSERT_EQ(biases.size(), 2U);
  for (std::size_t layer : {0, 1}) {
    const at::Tensor step = at::softplus(biases[layer]), rate = rates[layer].exp();
    ASSERT_EQ(step.numel(), kHeads);
    EXPECT_LT(std::abs(correlation(step.log(), rates[layer])), 0.07);
    const at::Tensor span = std::get<0>((1 / (step * rate)).sort());
    for (const auto& [share, expected] : {std::pair(0.05, 1.31), {0.5, 14.2}, {0.95, 158.0}})
      EXPECT_NEAR(span[static_cast<std::int64_t>(share * kHeads)].item<double>(), expected,
                  0.15 * expected)
          << share;
    EXPECT_GE(step.min().item<double>(), 1e-3 * (1 - 1e-9));
    EXPECT_LE(step.max().item<double>(), 0.1 * (1 + 1e-9));
    EXPECT_GE(rate.min().item<double>(), 1);
    EXPECT_LE(rate.max().item<double>(), 16);
  }
  EXPECT_LT(std::abs(correlation(biases[0], biases[1])), 0.07);
  EXPECT_LT(std::abs(correlation(rates[0], rates[1])), 0.07);
}

// As PyTorch begins a depthwise convolution of four taps: both are uniform in [-1/2, 1/2].
TEST(Mamba, ConvolutionsBeginUniform) {
  for (const char* kind : {"conv1d.weight", "conv1d.bias"}) {
    const auto values = initial_of(kind, 1024);
    ASSERT_EQ(values.size(), 2U);
    const at::Tensor& value = values[0];
    EXPECT_LE(value.abs().max().item<double>(), 0.5) << kind;
    EXPECT_GT(value.abs().max().item<double>(), 0.49) << kind;
    EXPECT_NEAR(value.mean().item<double>(), 0, 0.03) << kind;
    EXPECT_NEAR(value.square().mean().item<double>(), 1.0 / 12, 0.006) << kind;
  }
}

TEST(Join, ItsProjectionBeginsWithAUniformBias) {
  const model::HnetParams params({{.encoder = "t", .decoder = "t", .hidden = 1024, .ratio = 2},
                                  {.encoder = "t", .hidden = 1024}},
                                 0.02);
  const model::ParamSpec bias = params.join(0).back();
  ASSERT_EQ(bias.name, "backbone.residual_proj.bias");
  const at::Tensor value =
      exec::initial_values(bias, 0, bias.numel(), exec::initial_generator(bias, 7));
  EXPECT_LE(value.abs().max().item<double>(), 1.0 / 32);
  EXPECT_NEAR(value.square().mean().item<double>(), 1.0 / 3 / 1024, 0.03 / 1024);
}

TEST(Turned, TurnsHalfOfAHeadByItsPlace) {
  const at::Tensor x = row({1, 2, 3, 4, 5, 6, 7, 8}).view({1, 1, 8});
  const at::Tensor y =
      turned(x, at::tensor({1}, at::kLong), config::rope_frequencies(10000, 4)).flatten();
  const double c = std::cos(1), s = std::sin(1), slow_c = std::cos(0.01), slow_s = std::sin(0.01);
  EXPECT_LT(apart(y, row({c - 3 * s, 2 * slow_c - 4 * slow_s, 3 * c + s, 4 * slow_c + 2 * slow_s, 5,
                          6, 7, 8})),
            1e-14);
  // What is seen depends on how far apart two places are.
  const at::Tensor q = drawn({1, 1, 8}, 30), k = drawn({1, 1, 8}, 31);
  const auto score = [&](std::int64_t i, std::int64_t j) {
    return (turned(q, at::tensor({i}, at::kLong), config::rope_frequencies(10000, 4)) *
            turned(k, at::tensor({j}, at::kLong), config::rope_frequencies(10000, 4)))
        .sum()
        .item<double>();
  };
  EXPECT_NEAR(score(5, 2), score(93, 90), 1e-12);
}

TEST(Parts, CarryFp32InBf16Exactly) {
  const at::Tensor p =
      at::rand({1000}, at::make_generator<at::CPUGeneratorImpl>(32), at::TensorOptions(at::kFloat));
  at::Tensor leaf = p.clone().set_requires_grad(true);
  const at::Tensor parts = in_parts(leaf, 3, at::kBFloat16);
  EXPECT_EQ(parts.scalar_type(), at::kBFloat16);
  const at::Tensor again = from_parts(parts);
  EXPECT_TRUE(again.detach().equal(p));
  (again * 2).sum().backward();
  EXPECT_TRUE(leaf.grad().equal(at::full({1000}, 2.0, at::kFloat)));
}

}  // namespace
}  // namespace trireme::blocks::chunking_test
