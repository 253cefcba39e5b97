// Attention on one rank against its formula in fp64, forward and backward.
#include "trireme/ops/attention/attention.h"

#include <gmock/gmock.h>

#include "tests/ops/attention_cases.h"
#include "trireme/base/error.h"
#include "trireme/ops/attention/attention_core.h"

namespace trireme::ops::attention_test {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kWidth = 6;

Tensors inputs_of(std::int64_t samples, std::int64_t tokens, const AttentionHeads& heads) {
  return {normal({samples, tokens, heads.heads * kWidth}, 1),
          normal({samples, tokens, heads.kv_heads * kWidth}, 2),
          normal({samples, tokens, heads.kv_heads * kWidth}, 3)};
}

TEST(Attention, EveryMaskAndTypeEqualsTheFormula) {
  for (std::int64_t tokens : {1, 5, 64, 65, 150})
    for (const NamedMask& named : all_masks(2, tokens))
      for (std::int64_t kv_heads : {1, 2, 4}) {
        SCOPED_TRACE(
            fmt::format("{}, {} tokens, {} key-value heads", named.name, tokens, kv_heads));
        const AttentionHeads heads{.heads = 4, .kv_heads = kv_heads};
        const Tensors in = inputs_of(2, tokens, heads);
        const Mask& mask = named.mask;
        expect_equal([&](const Tensors& x) { return attention(x[0], x[1], x[2], heads, mask); },
                     [&](const Tensors& x) { return naive_attention(x, heads, mask); }, in);
        expect_equal([&](const Tensors& x) { return attention_packed(x[0], heads, mask); },
                     [&](const Tensors& x) {
                       Tensors parts = x[0].split_with_sizes(
                           {4 * kWidth, kv_heads * kWidth, kv_heads * kWidth}, 2);
                       for (at::Tensor& part : parts) part = part.contiguous();
                       return naive_attention(parts, heads, mask);
                     },
                     {at::cat(in, 2)});
      }
}

// Longer than one tile of columns, and documents that cross its border.
TEST(Attention, RowsLongerThanATile) {
  const std::int64_t tokens = kTileColumns + 300;
  const AttentionHeads heads{.heads = 2, .kv_heads = 1};
  const Tensors in = inputs_of(1, tokens, heads);
  const Documents documents = documents_of_cuts(1, tokens, {1500, 2100});
  for (const Mask& mask : {Mask::causal(), Mask::full(), Mask::causal(documents),
                           Mask::causal({}, 100), Mask::causal(documents, 2000)})
    expect_equal([&](const Tensors& x) { return attention(x[0], x[1], x[2], heads, mask); },
                 [&](const Tensors& x) { return naive_attention(x, heads, mask); }, in);
}

// A window costs what it shows: blocks of keys outside of it are left out.
TEST(Attention, WindowsLeaveOutWhatTheyDoNotShow) {
  const std::int64_t tokens = 8192, window = 1023;
  const Segments whole = {{.tokens = tokens}};
  const auto count = [&](std::int64_t back) {
    return count_scores(Mask::causal({}, back).rows(1, tokens, tokens), 0, whole, whole);
  };
  const ScoreCount seen = count(window), all = count(-1);
  EXPECT_EQ(all.seen, tokens * (tokens + 1) / 2);
  EXPECT_EQ(seen.seen, (window + 1) * tokens - (window + 1) * window / 2);
  EXPECT_LT(seen.computed, seen.seen + tokens * 2 * kTileStep);
  EXPECT_LT(4 * seen.computed, all.computed);
}

// [samples, tokens, heads, width]
at::Tensor apart(const at::Tensor& x) {
  return x.view({x.size(0), x.size(1), x.size(2) / kWidth, kWidth});
}

// Keys cut into any pieces, in any order, merge into the same sums.
TEST(Attention, PiecesOfKeysMerge) {
  const std::int64_t tokens = 200;
  const AttentionHeads heads =
      AttentionHeads{.heads = 4, .kv_heads = 2, .dropout = 0.2, .key = 5}.resolved();
  const Segments whole = {{.tokens = tokens}};
  Segments pieces = {{130, 130, 70}, {0, 0, 3}, {3, 3, 100}, {103, 103, 27}};
  for (const NamedMask& named : all_masks(2, tokens)) {
    SCOPED_TRACE(named.name);
    const Tensors in = inputs_of(2, tokens, heads);
    const Qkv qkv{apart(in[0]), apart(in[1]), apart(in[2])};
    const AttentionProblem problem{heads, named.mask, tokens, whole};
    const at::Tensor once = at::empty_like(qkv.q), merged = at::empty_like(qkv.q);
    const at::Tensor log_sums = attention_forward(problem, qkv, whole, once);
    const PartialAttention partial = no_attention(qkv.q);
    for (const Segment& piece : pieces) attention_add(problem, qkv, {piece}, partial);
    EXPECT_LT(distance(attention_finish(partial, merged), log_sums), 1e-14);
    EXPECT_LT(distance(merged, once), 1e-14);

    const at::Tensor dout = apart(normal(in[0].sizes().vec(), 9));
    const AttentionRows rows = attention_rows(log_sums, once, dout);
    Qkv at_once, added;
    for (auto* grads : {&at_once, &added})
      *grads = {at::zeros_like(qkv.q), at::zeros_like(qkv.k), at::zeros_like(qkv.v)};
    attention_backward(problem, qkv, whole, rows, {{at_once.q}, {at_once.k}, {at_once.v}});
    for (const Segment& piece : pieces)
      attention_backward(problem, qkv, {piece}, rows,
                         {{added.q, true}, {added.k, true}, {added.v, true}});
    EXPECT_LT(distance(added.q, at_once.q), 1e-13);
    EXPECT_LT(distance(added.k, at_once.k), 1e-13);
    EXPECT_LT(distance(added.v, at_once.v), 1e-13);
  }
}

// Rows without a document see nothing: 0 forward and backward, whatever their values, in every type.
TEST(Attention, ARowThatSeesNothingGivesZero) {
  const std::int64_t tokens = 130;
  const AttentionHeads heads{.heads = 2, .kv_heads = 1};
  Documents documents = documents_of_cuts(1, tokens, {70});
  documents.end.narrow(1, 100, 30).copy_(documents.begin.narrow(1, 100, 30));  // padding
  documents.begin.select(1, 3).fill_(4);
  documents.end.select(1, 3).fill_(4);
  const Tensors in = inputs_of(1, tokens, heads);
  for (const Mask& mask : {Mask::full(documents), Mask::causal(documents)})
    for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
      const Tensors all = results(
          [&](const Tensors& x) { return attention(x[0], x[1], x[2], heads, mask); }, in, type);
      for (const at::Tensor& x : all) EXPECT_FALSE(at::isnan(x).any().item<bool>());
      for (const std::int64_t row : {3, 100, 129})
        for (int i : {0, 1}) EXPECT_TRUE(all[i].select(1, row).eq(0).all().item<bool>()) << row;
      EXPECT_FALSE(all[0].select(1, 4).eq(0).any().item<bool>());
    }
  // Not even one row of a block.
  documents.end.zero_();
  documents.begin.zero_();
  const Mask none = Mask::full(documents);
  for (const at::Tensor& x :
       results([&](const Tensors& t) { return attention(t[0], t[1], t[2], heads, none); }, in,
               at::kFloat))
    EXPECT_TRUE(x.eq(0).all().item<bool>());
}

// A rank of tensor parallelism computes its heads as one rank would, noise included, also where heads are split
// without regard to the groups of grouped queries.
TEST(Attention, AShareOfTheHeadsIsThatOfAll) {
  const AttentionHeads all{.heads = 6, .kv_heads = 2, .dropout = 0.3, .key = 11};
  const Tensors in = inputs_of(2, 70, all);
  const at::Tensor whole = attention(in[0], in[1], in[2], all, Mask::causal());
  for (const auto& [first, count] :
       {std::pair(0, 2), std::pair(2, 2), std::pair(4, 2), std::pair(1, 5)}) {
    const std::int64_t first_kv = first / 3, kv_heads = (first + count - 1) / 3 - first_kv + 1;
    const AttentionHeads share{.heads = count,
                               .kv_heads = kv_heads,
                               .group = 3,
                               .offset = first - first_kv * 3,
                               .first_head = first,
                               .all_heads = 6,
                               .dropout = 0.3,
                               .key = 11};
    const auto kv = [&](const at::Tensor& x) {
      return x.narrow(2, first_kv * kWidth, kv_heads * kWidth);
    };
    const at::Tensor mine = attention(in[0].narrow(2, first * kWidth, count * kWidth), kv(in[1]),
                                      kv(in[2]), share, Mask::causal());
    EXPECT_TRUE(at::equal(mine, whole.narrow(2, first * kWidth, count * kWidth))) << first;
  }
}

// With one column of values per token the output shows each probability's noise; the gradient follows
// by finite differences, because the noise depends on the key alone.
TEST(Attention, Dropout) {
  const AttentionHeads heads{.heads = 2, .kv_heads = 1, .dropout = 0.4, .key = 77};
  Tensors inputs = {normal({2, 70, 16}, 1), normal({2, 70, 8}, 2), normal({2, 70, 8}, 3)};
  const Op op = [=](const Tensors& in) {
    return attention(in[0], in[1], in[2], heads, Mask::causal());
  };
  const Tensors exact = results(op, inputs, at::kDouble);
  const at::Tensor weight = normal(exact[0].sizes().vec(), 99);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor direction = normal(inputs[i].sizes().vec(), 50 + i);
    const auto value = [&](double step) {
      Tensors moved = inputs;
      moved[i] = inputs[i] + direction * step;
      return (op(moved) * weight).sum().item<double>();
    };
    const double slope = (value(1e-5) - value(-1e-5)) / 2e-5;
    EXPECT_NEAR((exact[i + 1] * direction).sum().item<double>(), slope,
                1e-6 * std::abs(slope) + 1e-6)
        << i;
  }
  const at::Tensor ones = at::ones({2, 70, 8}, at::kDouble);
  const at::Tensor mass = attention(inputs[0], inputs[1], ones, heads, Mask::causal());
  EXPECT_NEAR(mass.mean().item<double>(), 1, 0.05);
  EXPECT_GT(mass.std().item<double>(), 0.05);
}

TEST(Attention, DocumentsFromLengths) {
  const at::Tensor lengths = at::tensor({0, 3, 5, 8, 12}, at::kInt);
  const Documents documents =
      documents_of_lengths(lengths, 2, 6);  // the third crosses into sample 1
  EXPECT_TRUE(at::equal(documents.begin,
                        at::tensor({0, 0, 0, 3, 3, 5, 0, 0, 2, 2, 2, 2}, at::kLong).view({2, 6})));
  EXPECT_TRUE(at::equal(documents.end,
                        at::tensor({3, 3, 3, 5, 5, 6, 2, 2, 6, 6, 6, 6}, at::kLong).view({2, 6})));
  for (const at::Tensor& bad : {at::tensor({0, 3, 11}, at::kLong), at::tensor({1, 12}, at::kLong),
                                at::tensor({0, 7, 5, 12}, at::kLong)}) {
    try {
      documents_of_lengths(bad, 2, 6);
      ADD_FAILURE() << "accepted " << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kData);
      EXPECT_THAT(e.what(), HasSubstr("cu_seqlens"));
    }
  }
}

TEST(Attention, RefusesMasksThatDoNotFit) {
  const AttentionHeads heads{.heads = 1, .kv_heads = 1};
  const Tensors in = inputs_of(1, 8, heads);
  const auto attend = [&](const Mask& mask) { attention(in[0], in[1], in[2], heads, mask); };
  const Documents documents = documents_of_cuts(1, 8, {2});
  EXPECT_THROW(attend(Mask::full({.begin = documents.begin})), Error);
  EXPECT_THROW(attend(Mask::block_causal(0)), Error);
  EXPECT_THROW(attend({.kind = MaskKind::kFull, .window = 3}), Error);
  EXPECT_THROW(attend(Mask::causal(documents_of_cuts(1, 9, {2}))), Error);
}

}  // namespace
}  // namespace trireme::ops::attention_test
