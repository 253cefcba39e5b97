// Soft caps of scores and of logits (Gemma 2): cap tanh(z / cap), forward and backward, against the formula.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/attention_cases.h"
#include "trireme/ops/aten/cross_entropy.h"
#include "trireme/ops/cross_entropy.h"

namespace trireme::ops::cap_test {
namespace {

Tensors qkv(std::int64_t tokens, std::int64_t width, const AttentionHeads& heads, double size) {
  return {normal({2, tokens, heads.heads * width}, 1, size),
          normal({2, tokens, heads.kv_heads * width}, 2, size),
          normal({2, tokens, heads.kv_heads * width}, 3)};
}

// Widths whose tiles are products of pairs in bf16, where the CPU has those, and others.
TEST(Cap, OfScoresEqualsTheFormulaUnderEveryMask) {
  for (const auto& [width, tokens] :
       {std::pair<std::int64_t, std::int64_t>(5, 70), {16, 12}, {64, 150}})
    for (const NamedMask& named : all_masks(2, tokens))
      for (const double cap : {0.7, 50.0}) {
        SCOPED_TRACE(
            fmt::format("{}, width {}, {} tokens, cap {}", named.name, width, tokens, cap));
        const AttentionHeads heads{.heads = 4, .kv_heads = 2, .cap = cap};
        expect_equal(
            [&](const Tensors& x) { return attention(x[0], x[1], x[2], heads, named.mask); },
            [&](const Tensors& x) { return naive_attention(x, heads, named.mask); },
            qkv(tokens, width, heads, 1));
      }
}

TEST(Cap, OfRowsLongerThanATileEqualsTheFormula) {
  const AttentionHeads heads{.heads = 1, .kv_heads = 1, .cap = 1.5};
  const Mask mask = Mask::causal();
  expect_equal([&](const Tensors& x) { return attention_packed(x[0], heads, mask); },
               [&](const Tensors& x) {
                 Tensors parts = x[0].chunk(3, 2);
                 for (at::Tensor& part : parts) part = part.contiguous();
                 return naive_attention(parts, heads, mask);
               },
               {at::cat(qkv(kTileColumns + 70, 8, heads, 1), 2)});
}

// Scores far beyond the cap weigh alike, and let nothing through; a NaN comes through.
TEST(Cap, OfLargeScoresIsTheCap) {
  const AttentionHeads heads{.heads = 1, .kv_heads = 1, .cap = 2};
  const auto attend = [&](const Tensors& x) {
    return attention(x[0], x[1], x[2], heads, Mask::full());
  };
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const Tensors in = {at::ones({1, 40, 16}) * 1e4, at::ones({1, 40, 16}) * 1e4,
                        normal({1, 40, 16}, 3)};
    const Tensors all = results(attend, in, type);
    EXPECT_LT(distance(all[0], in[2].mean(1, true).expand({1, 40, 16})), 1e-2) << type;
    for (int of : {1, 2}) EXPECT_TRUE(all[of].eq(0).all().item<bool>()) << type;
    Tensors odd = in;
    odd[0] = in[0].clone();
    odd[0].select(1, 7).fill_(NAN);
    const at::Tensor rows = results(attend, odd, type)[0];
    EXPECT_TRUE(at::isnan(rows.select(1, 7)).all().item<bool>()) << type;
    EXPECT_FALSE(at::isnan(rows.select(1, 8)).any().item<bool>()) << type;
  }
}

constexpr std::int64_t kVocab = kLogitColumns + 37, kWidth = 24;

at::Tensor targets() {
  const at::Tensor ids = at::empty({3, 5}, at::kLong);
  for (std::int64_t i = 0; i < ids.numel(); ++i)
    ids.data_ptr<std::int64_t>()[i] = i % 4 == 1 ? kNoTarget : (i * 4099) % kVocab;
  return ids;
}

TEST(Cap, OfLogitsEqualsTheFormulaKeptAndRecomputed) {
  const at::Tensor ids = targets();
  const Tensors in = {normal({3, 5, kWidth}, 1), normal({kVocab, kWidth}, 2, 0.6)};
  for (const double cap : {1.5, 30.0}) {
    const auto formula = [&](const Tensors& x) {
      const at::Tensor none = ids.eq(kNoTarget);
      return at::log_softmax(cap * (at::matmul(x[0], x[1].t()) / cap).tanh(), -1)
          .gather(2, ids.masked_fill(none, 0).unsqueeze(2))
          .squeeze(2)
          .neg()
          .masked_fill(none, 0);
    };
    for (const Logits logits : {Logits::kKept, Logits::kRecomputed})
      expect_equal(
          [&](const Tensors& x) {
            return linear_token_losses(x[0], x[1], ids, 0, {}, logits, {}, cap);
          },
          formula, in, 2e-2);
  }
}

// The same bits where logits are recomputed, and where the loss is summed at once.
TEST(Cap, OfLogitsHasTheSameBitsRecomputed) {
  const at::Tensor ids = targets();
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const auto gradients = [&](Logits logits) {
      return results(
          [&](const Tensors& x) {
            return linear_cross_entropy(x[0], x[1], ids, 0, {}, logits, {}, 3);
          },
          {normal({3, 5, kWidth}, 1), normal({kVocab, kWidth}, 2, 0.6)}, type);
    };
    const Tensors kept = gradients(Logits::kKept), again = gradients(Logits::kRecomputed);
    for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(at::equal(kept[i], again[i])) << i;
  }
}

}  // namespace
}  // namespace trireme::ops::cap_test
