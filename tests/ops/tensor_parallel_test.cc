// Layers shared by ranks against one rank: forward, every gradient, and what travels.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/harness/count_allocations.h"
#include "tests/harness/ranks.h"
#include "tests/ops/compare.h"
#include "tests/ops/sharing.h"
#include "trireme/ops/cross_entropy.h"
#include "trireme/ops/embedding.h"
#include "trireme/ops/feed_forward.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"
#include "trireme/ops/norm_across.h"
#include "trireme/ops/pointwise.h"
#include "trireme/ops/tensor_parallel_rows.h"

namespace trireme::ops::tensor_parallel_test {
namespace {

Layer rounded_to_bf16(Layer layer) {
  for (Input& input : layer.inputs) input.whole = input.whole.to(at::kBFloat16).to(at::kDouble);
  return layer;
}

constexpr World kWorlds[] = {{1, false}, {1, true}, {2, false}, {2, true},
                             {3, false}, {3, true}, {4, false}, {4, true}};

// fp64 to rounding, fp32 and bf16 to theirs; a group of one rank leaves every bit as it is without.
void expect_parallel(const Layer& any, double bf16_tolerance = 1.2e-2) {
  const Layer layer = rounded_to_bf16(any);
  const Tensors expected = without_sharing(layer, at::kDouble);
  const std::vector<std::pair<at::ScalarType, double>> types = {
      {at::kDouble, 1e-12}, {at::kFloat, 2e-6}, {at::kBFloat16, bf16_tolerance}};
  for (const auto& [type, tolerance] : types) {
    const Tensors alone = without_sharing(layer, type);
    for (const World world : kWorlds) {
      const Result actual = with_sharing(layer, type, world, expected);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_LT(distance(actual.tensors[i], expected[i]), tolerance)
            << "result " << i << " in " << type << " on " << world.size << " ranks, sequence "
            << world.sequence;
        if (world.size == 1) {
          EXPECT_TRUE(at::equal(actual.tensors[i], alone[i])) << i;
        }
      }
      if (world.size == 1) {
        EXPECT_TRUE(actual.forward.empty() && actual.backward.empty());
      }
    }
  }
}

// 14 rows: not divisible by 3 and 4. Widths that no number of ranks divides.
constexpr std::int64_t kSamples = 2, kTokens = 7, kWidth = 19, kInner = 23;

Input stream(std::uint64_t seed, std::int64_t width = kWidth) {
  return {normal({kSamples, kTokens, width}, seed), Shared::kStream};
}
Input inner(std::uint64_t seed) {
  return {normal({kSamples, kTokens, kInner}, seed), Shared::kLast};
}

TEST(TensorParallel, ColumnLinear) {
  expect_parallel({.inputs = {stream(1),
                              {normal({kInner, kWidth}, 2), Shared::kFirst},
                              {normal({kInner}, 3), Shared::kFirst}},
                   .output = Shared::kLast,
                   .run = [](const Tensors& in, const TensorParallel& tp) {
                     return Tensors{column_linear(in[0], in[1], in[2], tp)};
                   }});
}

TEST(TensorParallel, ColumnLinearsShareTheirInput) {
  for (const bool bias : {false, true}) {
    Layer layer{.inputs = {stream(1),
                           {normal({kInner, kWidth}, 2), Shared::kFirst},
                           {normal({kInner, kWidth}, 3), Shared::kFirst},
                           {normal({5, kWidth}, 4), Shared::kFirst}},
                .output = Shared::kLast,
                .run = [](const Tensors& in, const TensorParallel& tp) {
                  std::vector<Projection> projections;
                  for (std::size_t i = 1; i <= 3; ++i)
                    projections.push_back(
                        {.weight = in[i], .bias = in.size() > 4 ? in[3 + i] : at::Tensor()});
                  return values(column_linears(in[0], projections, tp));
                }};
    if (bias)
      for (std::int64_t width : {kInner, kInner, std::int64_t{5}})
        layer.inputs.push_back({normal({width}, 6), Shared::kFirst});
    expect_parallel(layer);
  }
}

TEST(TensorParallel, RowLinear) {
  Layer layer{.inputs = {inner(1), {normal({kWidth, kInner}, 2), Shared::kLast}},
              .output = Shared::kStream,
              .run = [](const Tensors& in, const TensorParallel& tp) {
                const at::Tensor bias = in.size() > 2 ? in[2] : at::Tensor();
                return Tensors{row_linear(in[0], in[1], bias, tp)};
              }};
  expect_parallel(layer);
  layer.inputs.push_back({normal({kWidth}, 3), Shared::kSummed});
  expect_parallel(layer);
}

TEST(TensorParallel, FeedForward) {
  expect_parallel({.inputs = {inner(1),
                              {normal({kWidth, kInner}, 2), Shared::kLast},
                              {normal({kWidth}, 3), Shared::kSummed}},
                   .output = Shared::kStream,
                   .run = [](const Tensors& in, const TensorParallel& tp) {
                     return Tensors{gelu_linear(in[0], in[1], in[2], tp)};
                   }});
  expect_parallel({.inputs = {inner(1), inner(2), {normal({kWidth, kInner}, 3), Shared::kLast}},
                   .output = Shared::kStream,
                   .run = [](const Tensors& in, const TensorParallel& tp) {
                     return Tensors{gated_linear(in[0], in[1], in[2], tp)};
                   }});
  expect_parallel({.inputs = {inner(1),
                              inner(2),
                              {normal({kWidth, kInner}, 3), Shared::kLast},
                              {normal({kWidth}, 4), Shared::kSummed}},
                   .output = Shared::kStream,
                   .run = [](const Tensors& in, const TensorParallel& tp) {
                     return Tensors{
                         gated_linear(in[0], in[1], in[2], tp, {}, {}, Gate::kSilu, in[3])};
                   }});
}

TEST(TensorParallel, NormOverFeaturesOfAllRanks) {
  expect_parallel({.inputs = {inner(1), {normal({kInner}, 2), Shared::kFirst}},
                   .output = Shared::kLast,
                   .run = [](const Tensors& in, const TensorParallel& tp) {
                     return Tensors{rms_norm_across(in[0], in[1], {.width = kInner}, 1e-5, tp)};
                   }});
}

at::Tensor drawn_ids(std::int64_t vocab, std::uint64_t seed) {
  return (normal({kSamples, kTokens}, seed).abs() * 1e6).to(at::kLong).remainder(vocab);
}

TEST(TensorParallel, Embedding) {
  for (const std::int64_t vocab : {127, 31123}) {
    at::Tensor tokens = drawn_ids(vocab, 5);
    tokens[0][0] = 0;
    tokens[1][3] = tokens[1][4] = vocab - 1;
    const Layer layer{.inputs = {{normal({vocab, kWidth}, 1), Shared::kFirst}},
                      .output = Shared::kStream,
                      .run = [=](const Tensors& in, const TensorParallel& tp) {
                        const std::int64_t first = bound(vocab, tp.rank(), tp.size());
                        return Tensors{embedding(tokens, in[0], first, tp)};
                      }};
    expect_parallel(layer);
    // One rank has the row, the others zeros: nothing is rounded.
    const Tensors alone = without_sharing(layer, at::kBFloat16);
    EXPECT_TRUE(
        at::equal(with_sharing(layer, at::kBFloat16, {3, true}, alone).tensors[0], alone[0]));
  }
}

Layer head(std::int64_t vocab, Logits logits, bool sum = true, double cap = 0) {
  at::Tensor targets = drawn_ids(vocab, 5);
  targets[0][0] = 0;
  targets[1][3] = vocab - 1;
  targets[1][4] = targets[0][2] = kNoTarget;
  return {.inputs = {stream(1), {normal({vocab, kWidth}, 2), Shared::kFirst}},
          .output = Shared::kNot,
          .run = [=](const Tensors& in, const TensorParallel& tp) {
            const std::int64_t first = bound(vocab, tp.rank(), tp.size());
            const auto loss = sum ? linear_cross_entropy : linear_token_losses;
            return Tensors{loss(in[0], in[1], targets, first, tp, logits, {}, cap)};
          }};
}

TEST(TensorParallel, LinearCrossEntropy) {
  for (const std::int64_t vocab : {3, 127, 31123})  // 3: one of four ranks has none
    for (const Logits logits : {Logits::kKept, Logits::kRecomputed})
      for (const bool sum : {true, false})
        for (const double cap : {0.0, 4.0}) expect_parallel(head(vocab, logits, sum, cap), 2e-2);
}

// Of vocabularies of several pieces, under any tp; with and without memory for the weight's gradient.
TEST(TensorParallel, RecomputedLogitsGiveTheSameBits) {
  const auto same = [](const Tensors& kept, const Tensors& recomputed, const auto& what) {
    ASSERT_EQ(kept.size(), recomputed.size());
    for (std::size_t i = 0; i < kept.size(); ++i)
      EXPECT_TRUE(at::equal(kept[i], recomputed[i])) << i << " " << what;
  };
  for (const std::int64_t vocab : {127, 20000, 31123})
    for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
      if (type == at::kHalf && (!has_own_loops() || vocab > 20000))
        continue;  // slow, and no other path
      const auto alone = [&](Logits logits) { return without_sharing(head(vocab, logits), type); };
      const Tensors kept = alone(Logits::kKept);
      same(kept, alone(Logits::kRecomputed), type);
      const auto shared = [&](Logits logits) {
        return with_sharing(head(vocab, logits), type, {2, true}, kept).tensors;
      };
      same(shared(Logits::kKept), shared(Logits::kRecomputed), type);
    }
  const at::Tensor targets = drawn_ids(31123, 5);
  const at::Tensor x = stream(1).whole.to(at::kBFloat16);
  const auto gradient = [&](Logits logits) {
    at::Tensor weight = normal({31123, kWidth}, 2).to(at::kBFloat16).requires_grad_(true);
    weight.mutable_grad() = at::ones({31123, kWidth}, at::kFloat);
    linear_cross_entropy(x, weight, targets, 0, {}, logits).backward();
    return weight.grad();
  };
  EXPECT_TRUE(at::equal(gradient(Logits::kRecomputed), gradient(Logits::kKept)));
}

// Norm, three projections, mixed, back; norm, up, GELU, down: a layer of a transformer but for attention's
// mixing of tokens. `faulty`: rank 1's share of a column bias is off.
Layer block(bool faulty = false) {
  const auto weight = [](std::int64_t out, std::int64_t in, std::uint64_t seed, Shared shared) {
    return Input{normal({out, in}, seed, 0.2), shared};
  };
  return {.inputs = {stream(1),
                     {normal({kWidth}, 2), Shared::kSummed},
                     {normal({kWidth}, 3), Shared::kSummed},
                     weight(kInner, kWidth, 4, Shared::kFirst),
                     weight(kInner, kWidth, 5, Shared::kFirst),
                     weight(kInner, kWidth, 6, Shared::kFirst),
                     weight(kWidth, kInner, 7, Shared::kLast),
                     {normal({kWidth}, 8), Shared::kSummed},
                     {normal({kWidth}, 9), Shared::kSummed},
                     weight(4 * kWidth, kWidth, 10, Shared::kFirst),
                     {normal({4 * kWidth}, 11), Shared::kFirst},
                     weight(kWidth, 4 * kWidth, 12, Shared::kLast),
                     {normal({kWidth}, 13), Shared::kSummed}},
          .output = Shared::kStream,
          .run = [faulty](const Tensors& in, const TensorParallel& tp) {
            const Branching first = residual_norm(in[0], {}, in[1], in[2], 1e-5);
            const Tensors qkv = values(column_linears(
                first.normed, {{.weight = in[3]}, {.weight = in[4]}, {.weight = in[5]}}, tp));
            const at::Tensor mixed = qkv[0] * qkv[1].sigmoid() + qkv[2];
            const Branching second = residual_norm(
                first.stream, row_linear(mixed, in[6], in[7], tp), in[8], in[2], 1e-5);
            const double scale = faulty && tp.rank() == 1 ? 1 + 1e-8 : 1;
            const at::Tensor up = column_linear(second.normed, in[9], in[10] * scale, tp);
            return Tensors{second.stream + gelu_linear(up, in[11], in[12], tp)};
          }};
}

TEST(TensorParallel, Block) { expect_parallel(block(), 3e-2); }

TEST(TensorParallel, AWrongShareIsSeen) {
  const Tensors expected = without_sharing(block(), at::kDouble);
  for (const bool sequence : {false, true}) {
    const Result wrong = with_sharing(block(true), at::kDouble, {2, sequence}, expected);
    EXPECT_GT(distance(wrong.tensors[0], expected[0]), 100 * 1e-12);
  }
}

// Megatron's: two all-reduces each way; with sequence parallelism an all-gather and a reduce-scatter in the
// place of each, and in backward the input of each column-parallel layer once more.
TEST(TensorParallel, WhatTravelsIsMegatrons) {
  const Tensors shapes = without_sharing(block(), at::kDouble);
  const auto of = [](comm::Verb verb, std::int64_t rows) {
    return CountingGroup::Entry{verb, rows * kWidth, DType::kF64};
  };
  for (const int size : {2, 3, 4}) {
    const Result plain = with_sharing(block(), at::kDouble, {size, false}, shapes);
    const auto reduced = of(comm::Verb::kAllReduce, kSamples * kTokens);
    EXPECT_EQ(plain.forward, Entries({reduced, reduced}));
    EXPECT_EQ(plain.backward, Entries({reduced, reduced}));
    const std::int64_t padded = (kSamples * kTokens + size - 1) / size * size;
    const Result shared = with_sharing(block(), at::kDouble, {size, true}, shapes);
    const auto gathered = of(comm::Verb::kAllGather, padded);
    const auto scattered = of(comm::Verb::kReduceScatter, padded);
    EXPECT_EQ(shared.forward, Entries({gathered, scattered, gathered, scattered}));
    EXPECT_EQ(shared.backward,
              Entries({gathered, gathered, scattered, gathered, gathered, scattered}));
  }
}

// A head's logits never travel: x, two numbers a row, x again and its gradient.
TEST(TensorParallel, WhatTravelsForTheLoss) {
  const Layer layer = head(127, Logits::kKept);
  const Tensors shapes = without_sharing(layer, at::kDouble);
  const CountingGroup::Entry stats{comm::Verb::kAllGather, 2 * 2 * kSamples * kTokens, DType::kF64};
  const std::int64_t count = kSamples * kTokens * kWidth;
  const Result plain = with_sharing(layer, at::kDouble, {2, false}, shapes);
  EXPECT_EQ(plain.forward, Entries({stats}));
  EXPECT_EQ(plain.backward, Entries({{comm::Verb::kAllReduce, count, DType::kF64}}));
  const Result shared = with_sharing(layer, at::kDouble, {2, true}, shapes);
  const CountingGroup::Entry gathered{comm::Verb::kAllGather, count, DType::kF64};
  EXPECT_EQ(shared.forward, Entries({gathered, stats}));
  EXPECT_EQ(shared.backward, Entries({gathered, {comm::Verb::kReduceScatter, count, DType::kF64}}));
}

// With shared rows a column-parallel layer keeps nothing beyond its input and its output.
TEST(TensorParallel, SharedRowsAreKeptAsTheyCome) {
  constexpr int kRanks = 4;
  const harness::CountAllocations count;
  std::int64_t before = 0, after = 0;
  std::atomic<std::int64_t> outputs = 0;
  harness::run_ranks(harness::Backend::kLocal, kRanks, 60, [&](comm::World& world) {
    const auto group = world.make_group("tp", {0, 1, 2, 3});
    const TensorParallel tp{.group = group.get(), .sequence = true, .tokens = 64};
    const at::Tensor x = at::ones({1, 16, 32}).requires_grad_(true);
    const at::Tensor weight = at::ones({8, 32}).requires_grad_(true);
    group->barrier().wait();
    if (world.rank() == 0) before = count.live_bytes();
    group->barrier().wait();
    const at::Tensor y = column_linear(x, weight, {}, tp);
    outputs += static_cast<std::int64_t>(y.nbytes());
    group->barrier().wait();
    if (world.rank() == 0) after = count.live_bytes();
    group->barrier().wait();
    EXPECT_EQ(y.sizes(), (std::vector<std::int64_t>{1, 64, 8}));
  });
  EXPECT_EQ(after - before, outputs);
}

TEST(TensorParallel, DropoutOfSharedRowsIsThatOfTheWhole) {
  const at::Tensor x = normal({kSamples, kTokens, 300}, 1);  // rows across the noise's own
  const at::Tensor whole = ops::dropout(x, 0.3, 5).view({-1, 300});
  for (const auto& order : {std::vector<std::int64_t>{4, 5, 6}, {13, 0, 7, 2}}) {
    const at::Tensor rows = at::tensor(order, at::kLong);
    const at::Tensor part = x.view({-1, 300}).index_select(0, rows).requires_grad_(true);
    const at::Tensor y = ops::dropout(part.unsqueeze(0), 0.3, 5, rows);
    EXPECT_TRUE(at::equal(y[0], whole.index_select(0, rows)));
    y.sum().backward();
    EXPECT_TRUE(at::equal(part.grad(), y[0].ne(0).to(at::kDouble) / 0.7));
  }
  harness::run_ranks(harness::Backend::kLocal, 4, 60, [&](comm::World& world) {
    const auto group = world.make_group("tp", {0, 1, 2, 3});
    TensorParallel tp{.group = group.get()};
    EXPECT_FALSE(row_indices(14, tp).defined());
    tp.sequence = true;
    const at::Tensor mine = part_of(x, Shared::kStream, tp);
    const at::Tensor y = ops::dropout(mine, 0.3, 5, row_indices(14, tp));
    EXPECT_TRUE(at::equal(y, part_of(whole.view(x.sizes()), Shared::kStream, tp)));
  });
}

// Only the rank with the last rows can know, and its error is what the run ends with.
TEST(TensorParallel, IdsOutsideTheVocabulary) {
  const at::Tensor table = normal({4, 3}, 1);
  for (const std::int64_t bad : {-1, 8})
    for (const bool loss : {false, true}) {
      const at::Tensor ids = at::tensor(std::vector<std::int64_t>{1, bad}, at::kLong);
      const auto run = [&](comm::World& world) {
        const auto group = world.make_group("tp", {0, 1});
        const TensorParallel tp{.group = group.get()};
        const std::int64_t first = 4 * world.rank();
        if (loss)
          linear_cross_entropy(at::ones({2, 3}, at::kDouble), table, ids, first, tp);
        else
          embedding(ids, table, first, tp);
      };
      try {
        harness::run_ranks(harness::Backend::kLocal, 2, 60, run);
        ADD_FAILURE() << bad;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
      }
    }
}

}  // namespace
}  // namespace trireme::ops::tensor_parallel_test
