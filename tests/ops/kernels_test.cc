// What the CPU kernels promise beyond the ops' own tolerances.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "trireme/ops/cross_entropy.h"
#include "trireme/ops/kernels/cpu/norm.h"
#include "trireme/ops/kernels/cpu/pointwise.h"
#include "trireme/ops/kernels/cpu/rows.h"
#include "trireme/ops/kernels/cpu/scores.h"

namespace trireme::ops::kernels::kernels_test {
namespace {

using BF16 = c10::BFloat16;

// Half a step of bf16, and what the approximate arithmetic behind it may add.
constexpr double kRounding = 1.0 / 256 + 5e-4;

std::vector<BF16> every_finite_number() {
  std::vector<BF16> all;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const BF16 x(static_cast<std::uint16_t>(bits), BF16::from_bits());
    if (std::isfinite(static_cast<float>(x))) all.push_back(x);
  }
  return all;
}

TEST(Kernels, GeluOfEveryNumber) {
  const std::vector<BF16> x = every_finite_number();
  std::vector<BF16> y(x.size());
  pointwise_kernels<BF16>().gelu(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double in = static_cast<float>(x[i]);
    const double u = std::sqrt(2 / M_PI) * (in + 0.044715 * in * in * in);
    const double exact = in / (1 + std::exp(-2 * u));
    EXPECT_NEAR(static_cast<float>(y[i]), exact, kRounding * std::abs(exact) + 1e-35) << in;
  }
}

TEST(Kernels, SwigluOfEveryNumber) {
  const std::vector<BF16> gate = every_finite_number();
  const std::vector<BF16> up(gate.size(), BF16(1));
  std::vector<BF16> y(gate.size());
  pointwise_kernels<BF16>().swiglu(gate.data(), up.data(), y.data(),
                                   static_cast<std::int64_t>(gate.size()));
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double in = static_cast<float>(gate[i]);
    const double exact = in / (1 + std::exp(-in));
    EXPECT_NEAR(static_cast<float>(y[i]), exact, kRounding * std::abs(exact) + 1e-35) << in;
  }
}

// Losses are not rounded to the logits' type, and their error does not grow with the logits.
TEST(Kernels, LogSumExpIsExactToFiveDigits) {
  constexpr std::int64_t kClasses = 1003;
  for (float spread : {0.1f, 3.0f, 40.0f}) {
    std::vector<BF16> logits;
    double sum = 0;
    for (std::int64_t i = 0; i < kClasses; ++i) {
      logits.emplace_back(spread * std::sin(static_cast<float>(7 * i)));
      sum += std::exp(static_cast<double>(static_cast<float>(logits.back())));
    }
    const std::int64_t target = 5;
    float chosen = 0, log_sum = 0;
    score_kernels<BF16>().log_sum_exp({.targets = &target, .ignored = kNoTarget, .count = kClasses},
                                      logits.data(), &chosen, &log_sum, 0, 1);
    EXPECT_NEAR(log_sum, std::log(sum), 1e-5) << spread;
    EXPECT_EQ(chosen, static_cast<float>(logits[5]));
  }
}

float log_sum_of(const std::vector<BF16>& logits) {
  const std::int64_t target = 0;
  float chosen = 0, log_sum = 0;
  score_kernels<BF16>().log_sum_exp(
      {.targets = &target, .ignored = kNoTarget, .count = static_cast<std::int64_t>(logits.size())},
      logits.data(), &chosen, &log_sum, 0, 1);
  return log_sum;
}

// A row is read once, about its beginning; what comes later may be larger by any amount, or nothing before it.
TEST(Kernels, LogSumExpOfRowsThatRiseLate) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (std::size_t place : {3u, 700u, 5000u, 9999u})
    for (float large : {30.0f, 36.0f, 100.0f, 3000.0f}) {
      std::vector<BF16> logits(10000, BF16(-2));
      logits[place] = BF16(large);
      logits[place / 2] = BF16(large / 2);
      const double top = static_cast<float>(logits[place]);
      double rest = 0;
      for (const BF16& logit : logits) rest += std::exp(static_cast<float>(logit) - top);
      EXPECT_NEAR(log_sum_of(logits), top + std::log(rest), 1e-5 + 1e-6 * top)
          << place << " " << large;
      std::fill_n(logits.begin(), place, BF16(-kInfinity));
      rest = 0;
      for (const BF16& logit : logits) rest += std::exp(static_cast<float>(logit) - top);
      EXPECT_NEAR(log_sum_of(logits), top + std::log(rest), 1e-5 + 1e-6 * top)
          << place << " " << large;
      logits[9998] = BF16(std::nanf(""));
      EXPECT_TRUE(std::isnan(log_sum_of(logits)));
    }
}

// Rows are read and written in an overlap; each is what it is alone.
template <typename T>
void norms_of_rows(bool with_branch, bool with_mean) {
  constexpr std::int64_t kWidth = 205, kRows = 5;
  std::vector<T> x(kRows * kWidth), branch(x.size()), gain(kWidth), bias(kWidth);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<T>(std::sin(static_cast<float>(7 * i)) + static_cast<float>(i % 11));
    branch[i] = static_cast<T>(std::cos(static_cast<float>(3 * i)));
    gain[i % kWidth] = static_cast<T>(1.5f), bias[i % kWidth] = static_cast<T>(-0.25f);
  }
  struct Result {
    std::vector<T> sum, y;
    std::vector<Wide<T>> mean, scale;
  };
  const auto run = [&](std::int64_t together) {
    Result out{std::vector<T>(x.size()), std::vector<T>(x.size()), std::vector<Wide<T>>(kRows),
               std::vector<Wide<T>>(kRows)};
    const NormRows<T> rows{.x = x.data(),
                           .gain = gain.data(),
                           .bias = with_mean ? bias.data() : nullptr,
                           .mean = with_mean ? out.mean.data() : nullptr,
                           .scale = out.scale.data(),
                           .width = kWidth,
                           .eps = 1e-5};
    for (std::int64_t begin = 0; begin < kRows; begin += together)
      norm_kernels<T>().forward(rows, with_branch ? branch.data() : nullptr, out.sum.data(),
                                out.y.data(), begin, std::min(kRows, begin + together));
    return out;
  };
  const Result alone = run(1);
  for (std::int64_t together : {2, 3, 5}) {
    const Result out = run(together);
    EXPECT_EQ(std::memcmp(out.sum.data(), alone.sum.data(), x.size() * sizeof(T)), 0);
    EXPECT_EQ(std::memcmp(out.y.data(), alone.y.data(), x.size() * sizeof(T)), 0);
    EXPECT_EQ(out.mean, alone.mean);
    EXPECT_EQ(out.scale, alone.scale);
  }
  for (std::int64_t r = 0; r < kRows; ++r) {
    double mean = 0, squares = 0;
    for (std::int64_t i = r * kWidth; i < (r + 1) * kWidth; ++i) {
      const double in = static_cast<double>(with_branch ? alone.sum[i] : x[i]);
      mean += with_mean ? in / kWidth : 0;
      squares += in * in / kWidth;
    }
    EXPECT_NEAR(alone.scale[r], 1 / std::sqrt(squares - mean * mean + 1e-5), 1e-4);
  }
}

TEST(Kernels, NormsOfRowsDoNotDependOnTheirNeighbours) {
  for (bool with_branch : {false, true})
    for (bool with_mean : {false, true}) {
      norms_of_rows<BF16>(with_branch, with_mean);
      norms_of_rows<float>(with_branch, with_mean);
      norms_of_rows<double>(with_branch, with_mean);
    }
}

// However many rows are added at a time, the order of additions is theirs.
TEST(Kernels, SumsOfRowsAreThoseOfRowsOneByOne) {
  constexpr std::int64_t kWidth = 77, kRows = 11;
  std::vector<BF16> x(kRows * kWidth);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = BF16(std::sin(static_cast<float>(7 * i)));
  std::vector<float> exact(kWidth, 1), together(kWidth, 1);
  for (std::size_t i = 0; i < x.size(); ++i) exact[i % kWidth] += static_cast<float>(x[i]);
  row_kernels<BF16>().add_rows(x.data(), kRows, kWidth, kWidth, together.data());
  EXPECT_EQ(together, exact);
}

// A mean far from 0, and a first element far from the others, cost a norm no digits that matter.
TEST(Kernels, NormOfShiftedRows) {
  for (const auto& [shift, first] : {std::pair(100.0f, 0.0f), {0.0f, 1000.0f}, {1000.0f, -3.0f}}) {
    constexpr std::int64_t kWidth = 777;
    std::vector<float> x(kWidth), y(kWidth), gain(kWidth, 1), bias(kWidth, 0);
    double mean = 0, variance = 0;
    for (std::int64_t i = 0; i < kWidth; ++i) {
      x[i] = shift + std::sin(static_cast<float>(7 * i)) + (i == 0 ? first : 0);
      mean += static_cast<double>(x[i]) / kWidth;
    }
    for (float value : x) variance += (value - mean) * (value - mean) / kWidth;
    float row_mean = 0, row_scale = 0;
    norm_kernels<float>().forward({.x = x.data(),
                                   .gain = gain.data(),
                                   .bias = bias.data(),
                                   .mean = &row_mean,
                                   .scale = &row_scale,
                                   .width = kWidth,
                                   .eps = 0},
                                  nullptr, nullptr, y.data(), 0, 1);
    EXPECT_NEAR(row_mean, mean, 1e-5 * (std::abs(mean) + std::sqrt(variance)));
    EXPECT_NEAR(row_scale * std::sqrt(variance), 1, 1e-4);
  }
}

}  // namespace
}  // namespace trireme::ops::kernels::kernels_test
