// Products of attention's tiles by pairs of bf16, against the same in fp64, and that they are what attention takes.
#include "trireme/ops/kernels/cpu/pairs.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "tests/harness/needs.h"
#include "tests/ops/attention_cases.h"
#include "trireme/base/cpu.h"

namespace trireme::ops::pairs_test {
namespace {

using kernels::kPanel;
using kernels::kStrip;
using kernels::PairPanels;
using kernels::PairRows;
using BF16 = c10::BFloat16;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

bool cpu_has(const char* flag) {
  std::ifstream file("/proc/cpuinfo");
  const std::string info(std::istreambuf_iterator<char>(file), {});
  return info.find(flag) != std::string::npos;
}

std::string why_no_pairs() {
  return cpu_has("avx512_bf16") ? "" : "this CPU has none; Zen 4 and later and Cooper Lake do";
}

std::string why_not_taken() {
  return cpu_has("amx_bf16") ? "this CPU has AMX, which is taken" : why_no_pairs();
}

// Rows apart by more than their elements, with NaN between them.
struct Rows {
  Rows(std::int64_t r, std::int64_t c, int seed) : rows(r), columns(c), stride(c + 3) {
    at.assign(static_cast<std::size_t>(rows * stride), BF16(kNaN));
    const at::Tensor random = normal({rows, columns}, static_cast<std::uint64_t>(seed));
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        (*this)(i, j) = BF16(static_cast<float>(random[i][j].item<double>()));
  }
  BF16& operator()(std::int64_t r, std::int64_t c) { return at[r * stride + c]; }
  double value(std::int64_t r, std::int64_t c) const {
    return static_cast<float>(at[r * stride + c]);
  }

  std::int64_t rows, columns, stride;
  std::vector<BF16> at;
};

struct Panels {
  Panels(const Rows& m, bool transposed)
      : inner(transposed ? m.columns : m.rows), columns(transposed ? m.rows : m.columns) {
    memory.assign(static_cast<std::size_t>(PairPanels::size(inner, columns)), 0xFFFFFFFFu);
    const auto& kernels = kernels::pair_kernels();
    (transposed ? kernels.pack_transposed : kernels.pack)(m.at.data(), m.stride, inner, columns,
                                                          memory.data());
  }
  PairPanels view() const {
    return {memory.data(), kernels::round_up(inner, 2) / 2 * kPanel, columns};
  }

  std::int64_t inner, columns;
  std::vector<std::uint32_t> memory;
};

std::vector<Interval> strips(std::int64_t rows, const std::vector<Interval>& pattern) {
  std::vector<Interval> all;
  for (std::int64_t r = 0; r < rows; r += kStrip)
    all.push_back(pattern[all.size() % pattern.size()]);
  return all;
}

// Of queries and keys what strips name, and nothing beyond the panels that hold it.
TEST(Pairs, ScoresEqualTheFormula) {
  TRIREME_NEEDS("AVX-512 BF16", why_no_pairs());
  for (std::int64_t width : {2, 6, 40, 64, 80, 256})
    for (std::int64_t rows : {1, 3, 16, 63})
      for (std::int64_t columns : {1, 15, 64, 129}) {
        SCOPED_TRACE(fmt::format("{} x {} x {}", rows, width, columns));
        Rows q(rows, width, 1), k(columns, width, 2);
        const Panels b(k, true);
        const std::int64_t stride = kernels::round_up(columns, kPanel);
        std::vector<float> out(static_cast<std::size_t>(rows * stride), kNaN);
        const std::vector<Interval> seen =
            strips(rows, {{0, columns}, {columns / 2, columns}, {}, {0, columns / 2 + 1}});
        kernels::pair_kernels().multiply_seen({q.at.data(), q.stride, rows}, width, b.view(), seen,
                                              out.data(), stride);
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < columns; ++c) {
            const Interval& strip = seen[r / kStrip];
            const float value = out[r * stride + c];
            double sum = 0, size = 0;
            for (std::int64_t i = 0; i < width; ++i) {
              sum += q.value(r, i) * k.value(c, i);
              size += std::abs(q.value(r, i) * k.value(c, i));
            }
            if (c >= strip.begin && c < strip.end) {
              ASSERT_NEAR(value, sum, 1e-6 * size) << r << ", " << c;
            } else if (c < strip.begin / kPanel * kPanel ||
                       c >= kernels::round_up(strip.end, kPanel)) {
              ASSERT_TRUE(std::isnan(value)) << r << ", " << c;
            }
          }
      }
}

// out (+)= a b with `a` as rows or as pairs of its transpose; NaN outside of what strips name does no harm.
void expect_parts(std::int64_t rows, std::int64_t inner, std::int64_t columns, bool transposed,
                  bool add) {
  SCOPED_TRACE(
      fmt::format("{} x {} x {}, transposed {}, added {}", rows, inner, columns, transposed, add));
  const std::int64_t even = kernels::round_up(inner, 2);
  Rows a(rows, even, 3), b(inner, columns, 4);
  const std::vector<Interval> parts =
      strips(rows, {{0, inner}, {inner / 2, inner}, {}, {0, (inner + 1) / 2}});
  for (std::int64_t r = 0; r < rows; ++r) {
    const Interval& part = parts[r / kStrip];
    for (std::int64_t k = 0; k < even; ++k) {
      if (k >= part.begin && k < part.end) continue;
      const bool read =
          !part.empty() && k >= part.begin / 2 * 2 && k < kernels::round_up(part.end, 2);
      a(r, k) = BF16(read ? 0.0f : kNaN);
    }
  }
  std::vector<std::uint16_t> pairs(static_cast<std::size_t>(rows * even));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t k = 0; k < even; ++k) pairs[(k / 2 * rows + r) * 2 + k % 2] = a(r, k).x;
  const std::int64_t stride = columns + 5;
  std::vector<float> out(static_cast<std::size_t>(rows * stride), 0.5f);
  const PairRows left =
      transposed ? PairRows{pairs.data(), rows, rows, true} : PairRows{a.at.data(), a.stride, rows};
  const Panels right(b, false);
  kernels::pair_kernels().multiply_part(left, parts, right.view(), out.data(), stride, add);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < stride; ++c) {
      const float value = out[r * stride + c];
      if (c >= columns) {
        ASSERT_EQ(value, 0.5f);
        continue;
      }
      const Interval& part = parts[r / kStrip];
      double sum = add ? 0.5 : 0, size = 1;
      for (std::int64_t k = part.begin; k < part.end; ++k) {
        sum += a.value(r, k) * b.value(k, c);
        size += std::abs(a.value(r, k) * b.value(k, c));
      }
      ASSERT_NEAR(value, sum, 1e-6 * size) << r << ", " << c;
    }
}

TEST(Pairs, SumsOfPartsEqualTheFormula) {
  TRIREME_NEEDS("AVX-512 BF16", why_no_pairs());
  for (std::int64_t rows : {1, 4, 18})
    for (std::int64_t inner : {1, 5, 64, 301})
      for (std::int64_t columns : {2, 16, 40, 64, 80, 88})
        for (bool transposed : {false, true})
          for (bool add : {false, true}) expect_parts(rows, inner, columns, transposed, add);
}

// The same numbers as where tiles are matrices, in the other order.
TEST(Pairs, SoftmaxBackwardEqualsThatOfRows) {
  TRIREME_NEEDS("AVX-512 BF16", why_no_pairs());
  constexpr std::int64_t kRows = 5, kColumns = 37, kStride = 64;
  const std::vector<Interval> seen = {{0, 3}, {0, 20}, {7, 7}, {8, 33}, {30, 37}};
  std::vector<float> scores(kRows * kStride + kStride), dprobs(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    scores[i] = i % kStride < kColumns ? std::sin(static_cast<float>(i)) : kNaN;
    dprobs[i] = i % kStride < kColumns ? std::cos(static_cast<float>(3 * i)) : kNaN;
  }
  const std::vector<float> log_sums = {1, 2, -std::numeric_limits<float>::infinity(), 0.5, 3},
                           delta = {0.1f, -0.2f, 0, 0.3f, 0};
  for (const auto& [drop, cap] : {std::pair(false, 0.0), {true, 0.0}, {false, 2.0}, {true, 2.0}}) {
    const kernels::ScoreBlock block{.rows = kRows,
                                    .columns = kColumns,
                                    .stride = kStride,
                                    .seen = seen.data(),
                                    .scale = 0.3,
                                    .cap = cap,
                                    .place = 70,
                                    .first_column = 11,
                                    .drop = drop,
                                    .keep = kernels::Keep::at_rate(9, 0.4),
                                    .keep_scale = 1 / 0.6};
    std::vector<BF16> p(scores.size()), d(scores.size()), rows(scores.size(), BF16(kNaN));
    kernels::score_kernels<BF16>().softmax_backward(
        block, scores.data(), dprobs.data(), log_sums.data(), delta.data(), p.data(), d.data());
    std::vector<std::uint32_t> p_pairs(scores.size() / 2, ~0u), d_pairs(p_pairs.size(), ~0u);
    kernels::pair_kernels().softmax_backward(block, scores.data(), dprobs.data(), log_sums.data(),
                                             delta.data(), p_pairs.data(), d_pairs.data(),
                                             rows.data());
    for (std::int64_t r = 0; r < kRows + 1; ++r)
      for (std::int64_t c = 0; c < 48; ++c) {
        const bool inside = r < kRows && c < kColumns;
        const auto at = static_cast<std::size_t>(r * kStride + c);
        const auto pair = static_cast<std::size_t>(r / 2 * kStride + c);
        const auto half = [&](std::uint32_t x) { return (x >> (16 * (r % 2))) & 0xFFFF; };
        ASSERT_EQ(half(p_pairs[pair]), inside ? p[at].x : 0) << r << ", " << c;
        ASSERT_EQ(half(d_pairs[pair]), inside ? d[at].x : 0) << r << ", " << c;
        ASSERT_EQ(rows[at].x, inside ? d[at].x : 0) << r << ", " << c;
      }
  }
}

// Odd widths go the other way on every machine.
TEST(Pairs, HeadsOfEveryWidthEqualTheFormula) {
  for (const auto& [width, tokens] :
       {std::pair<std::int64_t, std::int64_t>(5, 70), {16, 65}, {40, 130}, {64, 257}, {80, 600}})
    for (const NamedMask& named : all_masks(1, tokens)) {
      SCOPED_TRACE(fmt::format("{}, width {}, {} tokens", named.name, width, tokens));
      const AttentionHeads heads{.heads = 2, .kv_heads = 1};
      expect_equal([&](const Tensors& x) { return attention(x[0], x[1], x[2], heads, named.mask); },
                   [&](const Tensors& x) { return naive_attention(x, heads, named.mask); },
                   {normal({1, tokens, 2 * width}, 1), normal({1, tokens, width}, 2),
                    normal({1, tokens, width}, 3)});
    }
}

// A head's bits are its own: whatever is computed beside it, and whatever tokens follow.
TEST(Pairs, BitsOfAHeadAreItsOwn) {
  TRIREME_NEEDS("AVX-512 BF16", why_not_taken());
  const std::int64_t samples = 2, tokens = 600, width = 64;
  const AttentionHeads four{.heads = 4, .kv_heads = 2}, two{.heads = 2, .kv_heads = 1};
  const Tensors in = {normal({samples, tokens, 4 * width}, 1),
                      normal({samples, tokens, 2 * width}, 2),
                      normal({samples, tokens, 2 * width}, 3)};
  const auto run = [&](const Tensors& x, const AttentionHeads& heads) {
    return results(
        [&](const Tensors& t) { return attention(t[0], t[1], t[2], heads, Mask::causal()); }, x,
        at::kBFloat16)[0];
  };
  const at::Tensor all = run(in, four);
  const at::Tensor one = run({in[0].narrow(0, 1, 1).narrow(2, 2 * width, 2 * width).contiguous(),
                              in[1].narrow(0, 1, 1).narrow(2, width, width).contiguous(),
                              in[2].narrow(0, 1, 1).narrow(2, width, width).contiguous()},
                             two);
  EXPECT_TRUE(at::equal(one, all.narrow(0, 1, 1).narrow(2, 2 * width, 2 * width)));
  const at::Tensor fewer =
      run({in[0].narrow(1, 0, 333).contiguous(), in[1].narrow(1, 0, 333).contiguous(),
           in[2].narrow(1, 0, 333).contiguous()},
          four);
  EXPECT_TRUE(at::equal(fewer, all.narrow(1, 0, 333)));
}

// The control that attention takes these products where it should: it does not even read what a strip of rows does not
// see, while a product of whole tiles meets the last value's NaN in every row of the block.
TEST(Pairs, AreTakenWhereTheCpuHasThem) {
  EXPECT_EQ(multiplies_bf16_in_lanes(), cpu_has("avx512_bf16") && !cpu_has("amx_bf16"));
  TRIREME_NEEDS("AVX-512 BF16", why_not_taken());
  const std::int64_t tokens = 64;
  const AttentionHeads heads{.heads = 1, .kv_heads = 1};
  for (std::int64_t width : {64, 63}) {
    const auto random = [&](int seed) {
      return normal({1, tokens, width}, static_cast<std::uint64_t>(seed)).to(at::kBFloat16);
    };
    const at::Tensor v = random(3);
    v.select(1, tokens - 1).fill_(kNaN);
    const at::Tensor out = attention(random(1), random(2), v, heads, Mask::causal());
    EXPECT_EQ(at::isfinite(out.narrow(1, 0, tokens - kStrip)).all().item<bool>(), width % 2 == 0)
        << width;
    EXPECT_TRUE(at::isnan(out.select(1, tokens - 1)).all().item<bool>());
  }
}

}  // namespace
}  // namespace trireme::ops::pairs_test
