// What the CPU kernels promise beyond the ops' own tolerances.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "trireme/ops/cross_entropy.h"
#include "trireme/ops/kernels/cpu/norm.h"
#include "trireme/ops/kernels/cpu/pointwise.h"
#include "trireme/ops/kernels/cpu/scores.h"

namespace trireme::ops::kernels {
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
}  // namespace trireme::ops::kernels
