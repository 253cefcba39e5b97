// Losses of tokens, of which each has a gradient of its own.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/log_softmax.h>
#include <gtest/gtest.h>

#include "tests/ops/compare.h"
#include "trireme/ops/cross_entropy.h"

namespace trireme::ops::token_losses_test {
namespace {

constexpr std::int64_t kVocab = 137, kWidth = 24;

at::Tensor targets() {
  at::Tensor ids = at::empty({3, 5}, at::kLong);
  for (std::int64_t i = 0; i < ids.numel(); ++i)
    ids.data_ptr<std::int64_t>()[i] = i % 4 == 1 ? kNoTarget : (i * 41) % kVocab;
  return ids;
}

Tensors inputs() { return {normal({3, 5, kWidth}, 1), normal({kVocab, kWidth}, 2, 0.3)}; }

TEST(TokenLosses, AreLogProbabilitiesWithTheirGradients) {
  const at::Tensor ids = targets();
  const auto formula = [&](const Tensors& in) {
    const at::Tensor none = ids.eq(kNoTarget);
    return at::log_softmax(at::matmul(in[0], in[1].t()), -1)
        .gather(2, ids.masked_fill(none, 0).unsqueeze(2))
        .squeeze(2)
        .neg()
        .masked_fill(none, 0);
  };
  for (const Logits logits : {Logits::kKept, Logits::kRecomputed})
    expect_equal(
        [&](const Tensors& in) { return linear_token_losses(in[0], in[1], ids, 0, {}, logits); },
        formula, inputs(), 2e-2);
}

// The sum of losses has the gradient of equal ones, to the bit.
TEST(TokenLosses, AddUpToTheCrossEntropy) {
  const at::Tensor ids = targets();
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const auto gradients = [&](bool sum) {
      Tensors leaves;
      for (const at::Tensor& input : inputs())
        leaves.push_back(input.to(type).detach().requires_grad_(true));
      const at::Tensor loss =
          sum ? linear_cross_entropy(leaves[0], leaves[1], ids)
              : linear_token_losses(leaves[0], leaves[1], ids).to(at::kDouble).sum();
      (loss * 0.5).backward();
      return Tensors{loss.detach().to(at::kFloat), leaves[0].grad(), leaves[1].grad()};
    };
    const Tensors whole = gradients(true), each = gradients(false);
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(at::equal(whole[i], each[i])) << i;
  }
}

}  // namespace
}  // namespace trireme::ops::token_losses_test
