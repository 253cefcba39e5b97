// A learning-rate schedule: the inverse square root. docs/extending.md quotes it.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/extending/own_loop.h"
#include "trireme/optim/adamw.h"

namespace trireme::extending::rate_test {
namespace {

// [rate]
// Learning rate after `done` updates: up to `peak` over `warmup` of them, then down with the inverse square root of
// their number (Vaswani et al. 2017).
double inverse_sqrt(double peak, double warmup, std::int64_t done) {
  const auto step = static_cast<double>(done + 1);
  return step <= warmup ? peak * step / warmup : peak * std::sqrt(warmup / step);
}
// [end]

TEST(OwnRate, RisesThenFallsWithoutAStep) {
  EXPECT_DOUBLE_EQ(inverse_sqrt(0.1, 10, 0), 0.01);
  EXPECT_DOUBLE_EQ(inverse_sqrt(0.1, 10, 9), 0.1);
  EXPECT_DOUBLE_EQ(inverse_sqrt(0.1, 10, 39), 0.05);
  for (std::int64_t done = 9; done < 100; ++done)
    EXPECT_GT(inverse_sqrt(0.1, 10, done), inverse_sqrt(0.1, 10, done + 1));
}

TEST(OwnRate, TrainsWithTheSameBitsUnderZero) {
  const Own own{
      .optimizer = [] { return std::make_unique<optim::AdamW>(optim::OptimizerOptions{}); },
      .rate = [](std::int64_t done) { return inverse_sqrt(0.02, 4, done); }};
  const std::vector<double> one = losses(loop_job(1, {}), 1, own);
  EXPECT_LT(one.back(), one.front());
  EXPECT_EQ(one, losses(loop_job(2, {"parallel.dp_shard=2", "parallel.zero=3"}), 2, own));
}

}  // namespace
}  // namespace trireme::extending::rate_test
