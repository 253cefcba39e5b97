// Blocks attend to chunks as to their members.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "trireme/families/vit/blocks_encoder.h"

namespace trireme::blocks::key_bias_test {
namespace {

const auto kF64 = at::TensorOptions().dtype(at::kDouble);

at::Tensor drawn(std::vector<std::int64_t> shape, std::uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), kF64);
}

// Three equal rows at one place count as one of which the logarithm of three is added to its scores.
TEST(KeyBias, OfALogarithmIsAsManyEqualRows) {
  const model::Encoder encoder{
      .hidden = 12, .heads = 2, .ffn = 8, .packed = true, .positions = config::Positions::kRotary};
  std::vector<at::Tensor> params;
  for (const std::vector<std::int64_t>& shape : std::vector<std::vector<std::int64_t>>{
           {12}, {12}, {36, 12}, {36}, {12, 12}, {12}, {12}, {12}, {8, 12}, {8}, {12, 8}, {12}})
    params.push_back(drawn(shape, params.size() + 1));
  const auto block = [&](const at::Tensor& x, const at::Tensor& places, const at::Tensor& bias) {
    Sight sight{.rotary = axial_rotary(places, 6, RotaryPairs::kExact, at::kDouble),
                .key_bias = bias};
    model::Encoder biased = encoder;
    biased.key_bias = bias.defined();
    EncoderBlock own(biased, 1e-6, always(std::move(sight)),
                     std::make_shared<Across>(config::Model{}));
    own.bind(params);
    return own.forward({x}, {})[0];
  };
  const at::Tensor x = drawn({4, 12}, 31), places = drawn({4, 3}, 32);
  const at::Tensor members = at::tensor({0, 0, 0, 1, 2, 3}, at::kLong);
  const at::Tensor bias = at::tensor({std::log(3.0), 0.0, 0.0, 0.0}, kF64);
  const at::Tensor apart = block(x.index_select(0, members), places.index_select(0, members), {});
  const at::Tensor together = block(x, places, bias).index_select(0, members);
  EXPECT_LT((apart - together).abs().max().item<double>(), 1e-13);
  EXPECT_GT((apart - block(x, places, {}).index_select(0, members)).abs().max().item<double>(),
            1e-3);
}

}  // namespace
}  // namespace trireme::blocks::key_bias_test
