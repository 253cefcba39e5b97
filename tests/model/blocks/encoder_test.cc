// Encoder blocks against what defines them: axial positions, patches, a plain block in fp64, packed rows, tp ranks.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/conv3d.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <mutex>

#include "tests/harness/ranks.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/families/vit/blocks_encoder.h"
#include "trireme/model/cut.h"

namespace trireme::blocks::encoder_test {
namespace {

using config::Activation;
constexpr config::Positions kRotary = config::Positions::kRotary;
using Tensors = std::vector<at::Tensor>;

at::Tensor normal(at::IntArrayRef shape, std::uint64_t seed, double std = 1) {
  return at::empty(shape, at::kDouble)
      .normal_(0, std, at::make_generator<at::CPUGeneratorImpl>(seed));
}

double apart(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm().clamp_min(1e-30)).item<double>();
}

at::Tensor row(std::initializer_list<double> values) {
  return torch::tensor(std::vector<double>(values), at::kDouble).unsqueeze(0);
}

at::Tensor places(std::int64_t count, double first = 0) {
  return at::arange(count, at::kDouble).add(first).unsqueeze(1);
}

TEST(AxialRotary, TurnsAsWrittenDown) {
  const at::Tensor x = row({1, 2, 3, 4});
  const at::Tensor exact =
      rotate(x, axial_rotary(places(1, 1), 4, RotaryPairs::kExact, at::kDouble));
  EXPECT_LT((exact - row({-1.1426, 1.9221, 2.9599, 4.0298})).abs().max().item<double>(), 5e-5);
  EXPECT_NEAR(exact.norm().item<double>(), 5.477226, 5e-7);
  const at::Tensor compat =
      rotate(x, axial_rotary(places(1, 1), 4, RotaryPairs::kCompat, at::kDouble));
  EXPECT_LT((compat - row({-1.1426, 2.0099, -1.7450, 4.0298})).abs().max().item<double>(), 5e-5);
  EXPECT_NEAR(compat.norm().item<double>(), 4.962817, 5e-7);
}

// The same by LibTorch's operators, pair by pair.
at::Tensor turned(const at::Tensor& x, const AxialRotary& rotary) {
  const std::int64_t width = rotary.cosines.size(1);
  const at::Tensor pairs = x.view({x.size(0), x.size(1), -1, width / 2, 2}).to(rotary.cosines);
  const auto of_channel = [&](const at::Tensor& table, int channel) {
    return table.view({-1, 1, width / 2, 2}).select(-1, channel);
  };
  const at::Tensor a = pairs.select(-1, 0), b = pairs.select(-1, 1);
  return at::stack({a * of_channel(rotary.cosines, 0) - b * of_channel(rotary.sines, 0),
                    b * of_channel(rotary.cosines, 1) + a * of_channel(rotary.sines, 1)},
                   -1)
      .view(x.sizes())
      .to(x.scalar_type());
}

// Of queries within fused rows, whose channels are no multiple of a vector.
TEST(AxialRotary, HasTheBitsAndGradientsOfOperators) {
  for (const RotaryPairs pairs : {RotaryPairs::kExact, RotaryPairs::kCompat})
    for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf})
      for (const std::int64_t width : {6, 22, 64}) {
        const AxialRotary rotary =
            axial_rotary(at::arange(15, at::kDouble).view({5, 3}) / 3, width, pairs,
                         type == at::kDouble ? at::kDouble : at::kFloat);
        const at::Tensor fused = normal({2, 5, 3 * 2 * width}, 1).to(type),
                         dy = normal({2, 5, 2 * width}, 2).to(type);
        const auto both = [&](const auto& rotation) {
          const at::Tensor leaf = fused.detach().requires_grad_(true);
          const at::Tensor y = rotation(leaf.chunk(3, -1)[1], rotary);
          y.backward(dy);
          return std::pair(y.detach(), leaf.grad());
        };
        const auto [y, dx] = both(rotate);
        const auto [expected, expected_dx] = both(
            [](const at::Tensor& x, const AxialRotary& by) { return turned(x.contiguous(), by); });
        EXPECT_TRUE(at::equal(y, expected)) << type << width;
        EXPECT_TRUE(at::equal(dx, expected_dx)) << type << width;
      }
}

TEST(Look, IsMadeAnewForOtherInputsAlone) {
  int made = 0;
  const EncoderBlock::Look look = made_once([&](const std::vector<at::Tensor>& inputs) {
    ++made;
    return Sight{.key_bias = inputs[1] * 2};
  });
  const at::Tensor x = at::zeros({3});
  at::Tensor read = at::ones({4});
  const auto seen = [&](const at::Tensor& input) { return look({x, input}).key_bias; };
  EXPECT_TRUE(at::equal(seen(read), at::full({4}, 2)));
  EXPECT_TRUE(look({at::ones({3}), read.detach()}).key_bias.is_same(seen(read)));
  EXPECT_EQ(made, 1);
  EXPECT_EQ(seen(read.narrow(0, 0, 2)).size(0), 2);
  EXPECT_EQ(seen(read.narrow(0, 1, 2)).size(0), 2);
  EXPECT_EQ(made, 3);
  seen(read);
  read.mul_(3);
  EXPECT_TRUE(at::equal(seen(read), at::full({4}, 6)));
  EXPECT_EQ(made, 5);
  read = at::Tensor();  // the next tensor may have its memory
  EXPECT_TRUE(at::equal(seen(at::full({4}, 5)), at::full({4}, 10)));
  EXPECT_EQ(made, 6);
}

// Scores of a query and a key that are 3 apart.
at::Tensor scores(RotaryPairs pairs) {
  const at::Tensor q = normal({1, 24}, 1), k = normal({1, 24}, 2);
  const auto at_places = [&](const at::Tensor& x, double first) {
    const at::Tensor where = at::cat({places(40, first), places(40, first), places(40, first)}, 1);
    return rotate(x.expand({40, 24}).contiguous(), axial_rotary(where, 24, pairs, at::kDouble));
  };
  return (at_places(q, 3) * at_places(k, 0)).sum(1);
}

TEST(AxialRotary, ScoresKnowDistancesAloneUnlessCompatible) {
  const at::Tensor exact = scores(RotaryPairs::kExact), compat = scores(RotaryPairs::kCompat);
  EXPECT_LT((exact - exact[0]).abs().max().item<double>(), 1e-13);
  EXPECT_GT((compat - compat[0]).abs().max().item<double>(), 1e-2);
}

TEST(AxialRotary, ChannelsAreSharedByAxesInOrder) {
  for (const auto& [head, width] :
       {std::pair(64, 20), std::pair(80, 26), std::pair(88, 28), std::pair(32, 10)})
    for (int axis = 0; axis < 3; ++axis) {
      at::Tensor where = at::zeros({1, 3}, at::kLong);
      where[0][axis] = 1;
      const at::Tensor turned =
          axial_rotary(where, head, RotaryPairs::kExact, at::kDouble).sines[0].ne(0);
      const at::Tensor channel = at::arange(head, at::kLong);
      EXPECT_TRUE(at::equal(turned, channel.ge(axis * width) & channel.lt((axis + 1) * width)))
          << head << " " << axis;
    }
}

TEST(Patches, AreWhatAConvolutionSees) {
  const config::Vision vision{.image = 12, .patch = 4, .frames = 4, .tubelet = 2};
  const model::PatchGrid grid = model::patch_grid(vision);
  EXPECT_EQ(grid.tokens(), 2 * 3 * 3);
  EXPECT_EQ(grid.features, 3 * 2 * 4 * 4);
  const at::Tensor clips = normal({2, 3, 4, 12, 12}, 1), weight = normal({5, 3, 2, 4, 4}, 2);
  const at::Tensor convolved =
      at::conv3d(clips, weight, {}, /*stride=*/{2, 4, 4}).flatten(2).transpose(1, 2);
  const at::Tensor linear = at::matmul(patches(clips, vision), weight.flatten(1).t());
  EXPECT_LT(apart(linear, convolved), 1e-14);
  const at::Tensor where = grid_positions(grid);
  EXPECT_TRUE(at::equal(where[0], torch::tensor({0, 0, 0}, at::kLong)));
  EXPECT_TRUE(at::equal(where[5], torch::tensor({0, 1, 2}, at::kLong)));
  EXPECT_TRUE(at::equal(where[17], torch::tensor({1, 2, 2}, at::kLong)));
}

model::Encoder encoder_of(std::int64_t sequences, std::int64_t tokens, Activation activation,
                          config::Positions positions, bool causal = false) {
  return {.hidden = 24,
          .heads = 3,
          .ffn = 40,
          .tokens = tokens,
          .sequences = sequences,
          .causal = causal,
          .positions = positions,
          .activation = activation};
}

// Away from the start, where gains are 1 and biases 0.
Tensors drawn(const model::Encoder& encoder) {
  Tensors params;
  for (const model::ParamSpec& spec : model::block_params(encoder, "", 0))
    params.push_back(normal(spec.shape, 10 + params.size(), 0.3) +
                     (spec.init.kind == model::Init::Kind::kOnes ? 1 : 0));
  return params;
}

Tensors leaves(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& one : tensors) copies.push_back(one.clone().requires_grad_(true));
  return copies;
}

at::Tensor plainly_activated(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::kGelu: return x * 0.5 * (1 + at::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return x * 0.5 * (1 + (std::sqrt(2 / M_PI) * (x + 0.044715 * x.pow(3))).tanh());
    case Activation::kQuickGelu: return x / (1 + (-1.702 * x).exp());
  }
  return {};
}

at::Tensor plainly_normed(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias) {
  const at::Tensor centred = x - x.mean(-1, true);
  return centred / (centred.pow(2).mean(-1, true) + 1e-6).sqrt() * gain + bias;
}

// Channels 2i and 2i + 1 of each head as a complex number, axis by axis.
at::Tensor plainly_turned(const at::Tensor& x, const at::Tensor& where) {  // [b, h, t, w]
  at::Tensor y = x.clone();
  const std::int64_t width = x.size(3) / where.size(1) / 2 * 2;
  for (std::int64_t axis = 0; axis < where.size(1); ++axis)
    for (std::int64_t i = 0; i < width / 2; ++i) {
      const at::Tensor angle =
          where.select(1, axis).to(at::kDouble) *
          std::pow(1e4, -2.0 * static_cast<double>(i) / static_cast<double>(width));
      const std::int64_t even = axis * width + 2 * i;
      const at::Tensor a = x.select(3, even), b = x.select(3, even + 1);
      y.select(3, even).copy_(a * angle.cos() - b * angle.sin());
      y.select(3, even + 1).copy_(b * angle.cos() + a * angle.sin());
    }
  return y;
}

// The formula of a block, with every score at once.
at::Tensor plain_block(const at::Tensor& x, const Tensors& p, const model::Encoder& encoder,
                       const at::Tensor& where) {
  const std::int64_t b = x.size(0), t = x.size(1), d = x.size(2), h = encoder.heads;
  const at::Tensor qkv = at::matmul(plainly_normed(x, p[0], p[1]), p[2].t()) + p[3];
  Tensors heads;
  for (const at::Tensor& part : qkv.chunk(3, 2))
    heads.push_back(part.reshape({b, t, h, d / h}).transpose(1, 2));
  if (where.defined())
    for (int i = 0; i < 2; ++i) heads[i] = plainly_turned(heads[i], where);
  at::Tensor score =
      at::matmul(heads[0], heads[1].transpose(2, 3)) / std::sqrt(static_cast<double>(d / h));
  if (encoder.causal) score = score + at::full({t, t}, -INFINITY, at::kDouble).triu(1);
  const at::Tensor mixed =
      at::matmul(at::softmax(score, -1), heads[2]).transpose(1, 2).reshape({b, t, d});
  const at::Tensor y = x + at::matmul(mixed, p[4].t()) + p[5];
  const at::Tensor up = at::matmul(plainly_normed(y, p[6], p[7]), p[8].t()) + p[9];
  return y + at::matmul(plainly_activated(up, encoder.activation), p[10].t()) + p[11];
}

std::shared_ptr<const Across> alone() { return std::make_shared<Across>(config::Model{}); }

at::Tensor run_block(const model::Encoder& encoder, const EncoderBlock::Look& look,
                     const Tensors& params, const Tensors& inputs,
                     std::shared_ptr<const Across> across = alone()) {
  EncoderBlock block(encoder, 1e-6, look, std::move(across));
  block.bind(params);
  return block.forward(inputs, {})[0];
}

struct Case {
  Activation activation;
  bool causal;
  bool rotary;
};

class Block : public testing::TestWithParam<Case> {};

TEST_P(Block, IsItsFormulaWithItsGradients) {
  const auto& [activation, causal, rotary] = GetParam();
  const model::Encoder encoder =  // of more rows than a tile
      encoder_of(2, 70, activation, rotary ? kRotary : config::Positions::kLearned, causal);
  at::Tensor where;
  Sight sight{.mask = causal ? ops::Mask::causal() : ops::Mask::full()};
  if (rotary) {
    where = grid_positions({.frames = 2, .rows = 5, .columns = 7, .features = 1});
    sight.rotary = axial_rotary(where, 8, RotaryPairs::kExact, at::kDouble);
  }
  const Tensors values = drawn(encoder);
  Tensors ours = leaves(values), plain = leaves(values);
  const at::Tensor x = normal({2, 70, 24}, 3), seed = normal({2, 70, 24}, 4);
  const at::Tensor x_ours = x.clone().requires_grad_(true),
                   x_plain = x.clone().requires_grad_(true);
  const at::Tensor y = run_block(encoder, always(sight), ours, {x_ours});
  const at::Tensor expected = plain_block(x_plain, plain, encoder, where);
  EXPECT_LT(apart(y, expected), 1e-13);
  y.backward(seed);
  expected.backward(seed);
  EXPECT_LT(apart(x_ours.grad(), x_plain.grad()), 1e-12);
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_LT((ours[i].grad() - plain[i].grad()).norm().item<double>(),
              1e-12 * (1 + plain[i].grad().norm().item<double>()))
        << i;
}

INSTANTIATE_TEST_SUITE_P(Kinds, Block,
                         testing::Values(Case{Activation::kGelu, false, false},
                                         Case{Activation::kGeluTanh, false, true},
                                         Case{Activation::kQuickGelu, true, false}));

// Sequences of several lengths behind one another are what each is alone, gradients too.
TEST(PackedBlock, IsEachSequenceAlone) {
  const model::Encoder encoder = encoder_of(1, 40, Activation::kGelu, kRotary);
  const Tensors values = drawn(encoder);
  const std::vector<std::int64_t> lengths = {1, 17, 9, 40, 3};
  const at::Tensor x = normal({70, 24}, 5), seed = normal({70, 24}, 6);
  const at::Tensor where = normal({70, 3}, 7, 5);  // real numbers may be
  Tensors packed_params = leaves(values), alone_params = leaves(values);
  const at::Tensor x_packed = x.clone().requires_grad_(true);
  const at::Tensor ends = torch::tensor({0, 1, 18, 27, 67, 70}, at::kInt);
  const at::Tensor y =
      run_block(encoder, packed(8, RotaryPairs::kExact), packed_params, {x_packed, where, ends});
  EXPECT_EQ(y.sizes(), x.sizes());
  y.backward(seed);
  std::int64_t first = 0;
  for (const std::int64_t length : lengths) {
    const at::Tensor one = x.narrow(0, first, length).unsqueeze(0).clone().requires_grad_(true);
    const at::Tensor alone =
        run_block(encoder,
                  always({.rotary = axial_rotary(where.narrow(0, first, length), 8,
                                                 RotaryPairs::kExact, at::kDouble)}),
                  alone_params, {one});
    EXPECT_LT(apart(y.narrow(0, first, length), alone[0]), 1e-13) << length;
    alone.backward(seed.narrow(0, first, length).unsqueeze(0));
    EXPECT_LT(apart(x_packed.grad().narrow(0, first, length), one.grad()[0]), 1e-12) << length;
    first += length;
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_LT(apart(packed_params[i].grad(), alone_params[i].grad()), 1e-12) << i;
}

// What a tp rank holds of a parameter.
at::Tensor local(const at::Tensor& whole, const model::ParamSpec& spec, int rank, int size) {
  const model::LocalParam here = model::local_param(spec, rank, size);
  at::Tensor part = at::empty(here.shape, whole.options());
  for (const model::Extent& extent : here.extents)
    part.view(-1)
        .narrow(0, extent.local, extent.count)
        .copy_(whole.view(-1).narrow(0, extent.global, extent.count));
  return part;
}

// 3 heads and 40 features on 2 ranks: shares that differ.
TEST(BlockOnTensorRanks, IsTheBlockOfOne) {
  const model::Encoder encoder = encoder_of(2, 35, Activation::kGelu, kRotary);
  const std::vector<model::ParamSpec> specs = model::block_params(encoder, "", 0);
  const Tensors values = drawn(encoder);
  const at::Tensor x = normal({2, 35, 24}, 3), seed = normal({2, 35, 24}, 4);
  const at::Tensor where = grid_positions({.frames = 1, .rows = 5, .columns = 7, .features = 1});
  const EncoderBlock::Look look =
      always({.rotary = axial_rotary(where, 8, RotaryPairs::kExact, at::kDouble)});
  Tensors whole = leaves(values);
  const at::Tensor x_one = x.clone().requires_grad_(true);
  const at::Tensor y_one = run_block(encoder, look, whole, {x_one});
  y_one.backward(seed);
  config::Job job;
  for (const char* set : {"model.family=vit", "data.source=stripes", "parallel.tp=2"})
    config::apply_set(job, set);
  job = config::resolve(job, 2, {.classes = 5});
  std::mutex mutex;  // of expectations
  harness::run_ranks(harness::Backend::kLocal, 2, 60, [&](comm::World& world) {
    const int rank = world.rank();
    Tensors params;
    for (std::size_t i = 0; i < specs.size(); ++i)
      params.push_back(local(values[i], specs[i], rank, 2).requires_grad_(true));
    const at::Tensor own = x.clone().requires_grad_(true);
    const auto across = std::make_shared<Across>(job, world, at::kCPU);
    const at::Tensor y = run_block(encoder, look, params, {own}, across);
    y.backward(seed);
    const std::lock_guard lock(mutex);
    EXPECT_LT(apart(y, y_one), 1e-13);
    EXPECT_LT(apart(own.grad(), x_one.grad()), 1e-12);
    for (std::size_t i = 0; i < specs.size(); ++i)
      EXPECT_LT(
          (params[i].grad() - local(whole[i].grad(), specs[i], rank, 2)).norm().item<double>(),
          1e-12 * (1 + params[i].grad().norm().item<double>()))
          << specs[i].name;
  });
}

// In bf16 a block stays as near to fp64 as the type lets it.
TEST(NarrowBlock, KeepsStatisticsWide) {
  const model::Encoder encoder = encoder_of(2, 70, Activation::kQuickGelu, kRotary);
  const at::Tensor where = grid_positions({.frames = 2, .rows = 5, .columns = 7, .features = 1});
  const at::Tensor x = normal({2, 70, 24}, 3);
  const Tensors values = drawn(encoder);
  const auto in = [&](at::ScalarType type) {
    Tensors params;
    for (const at::Tensor& value : values) params.push_back(value.to(type));
    const at::ScalarType turned = type == at::kDouble ? at::kDouble : at::kFloat;
    return run_block(encoder,
                     always({.rotary = axial_rotary(where, 8, RotaryPairs::kExact, turned)}),
                     params, {x.to(type)})
        .to(at::kDouble);
  };
  EXPECT_LT(apart(in(at::kFloat), in(at::kDouble)), 1e-6);
  // Three roundings to bf16, of 2^-9 each; twice as many where LibTorch computes what kernels fuse.
  EXPECT_LT(apart(in(at::kBFloat16), in(at::kDouble)), 2e-2);
}

}  // namespace
}  // namespace trireme::blocks::encoder_test
