#include "trireme/base/ulps.h"

#include <gtest/gtest.h>

#include <cmath>

#include "trireme/base/error.h"

namespace trireme::ulps_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Ulps, CountTheNumbersOfAType) {
  EXPECT_EQ(ulps_between(1, 1, DType::kF64), 0u);
  EXPECT_EQ(ulps_between(1, std::nextafter(1, 2), DType::kF64), 1u);
  EXPECT_EQ(ulps_between(std::nextafter(1, 2), 1, DType::kF64), 1u);
  EXPECT_EQ(ulps_between(1, std::nextafterf(1, 2), DType::kF32), 1u);
  EXPECT_EQ(ulps_between(1, 2, DType::kF32), 1u << 23);
  EXPECT_EQ(ulps_between(1, 2, DType::kF64), std::uint64_t{1} << 52);
  EXPECT_EQ(ulps_between(1, 2, DType::kBF16), 1u << 7);
  EXPECT_EQ(ulps_between(1, 1.0078125, DType::kBF16), 1u);
  EXPECT_EQ(ulps_between(1, 2, DType::kF16), 1u << 10);
  EXPECT_EQ(ulps_between(1, 1 + 0x1p-10, DType::kF16), 1u);
  EXPECT_EQ(ulps_between(0, 0x1p-14, DType::kF16), 1u << 10) << "below the normal range";
  EXPECT_EQ(ulps_between(-0x1p-24, 0x1p-24, DType::kF16), 2u);
  EXPECT_EQ(ulps_between(65504, 1e6, DType::kF16), 1u) << "infinity comes next";
}

TEST(Ulps, RoundToTheTypeFirst) {
  EXPECT_EQ(ulps_between(1, 1 + 1e-12, DType::kF32), 0u);
  EXPECT_EQ(ulps_between(1, 1.003, DType::kBF16), 0u);
  EXPECT_EQ(ulps_between(1, 1.005, DType::kBF16), 1u);
  EXPECT_EQ(ulps_between(1, 1.00390625, DType::kBF16), 0u) << "half way, to even";
  EXPECT_EQ(ulps_between(1, 1 + 0x1p-11, DType::kF16), 0u) << "half way, to even";
  EXPECT_EQ(ulps_between(2, 2 - 0x1p-12, DType::kF16), 0u) << "up into the next power";
}

TEST(Ulps, PassZeroOnce) {
  constexpr double kLeast = std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(ulps_between(0.0, -0.0, DType::kF64), 0u);
  EXPECT_EQ(ulps_between(-kLeast, kLeast, DType::kF64), 2u);
  EXPECT_EQ(ulps_between(-1, 1, DType::kBF16), 2u * 0x3f80);
}

TEST(Ulps, OfWhatIsNotFinite) {
  EXPECT_EQ(ulps_between(kNan, kNan, DType::kF64), 0u);
  EXPECT_EQ(ulps_between(kNan, 1, DType::kF32), kMostUlps);
  EXPECT_EQ(ulps_between(kInfinity, kInfinity, DType::kF64), 0u);
  EXPECT_EQ(ulps_between(std::numeric_limits<double>::max(), kInfinity, DType::kF64), 1u);
  EXPECT_LT(ulps_between(-kInfinity, kInfinity, DType::kF64), kMostUlps);
  EXPECT_THROW(ulps_between(1, 2, DType::kI64), Error);
}

}  // namespace
}  // namespace trireme::ulps_test
