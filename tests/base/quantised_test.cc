// Stored forms of rows: codes, scales and errors against computations of a few lines.
#include "trireme/base/quantised.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace trireme::quantised_test {
namespace {

std::vector<float> normal(std::size_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> draw(0, 0.02F);
  std::vector<float> values(count);
  for (float& value : values) value = draw(bits);
  return values;
}

std::vector<std::uint8_t> quantised(RowForm form, const std::vector<float>& values) {
  std::vector<std::uint8_t> bytes(
      static_cast<std::size_t>(row_bytes(form, static_cast<std::int64_t>(values.size()))));
  quantise_row(form, values, bytes);
  return bytes;
}

std::vector<float> round_trip(RowForm form, const std::vector<float>& values) {
  std::vector<float> back(values.size());
  dequantise_row(form, quantised(form, values), back);
  return back;
}

float scale_at(const std::vector<std::uint8_t>& bytes, std::size_t place) {
  float scale = 0;
  std::memcpy(&scale, bytes.data() + place, sizeof(scale));
  return scale;
}

// The nearest by distance, in an order that prefers the lower of two that are as near.
int nearest(double value) {
  int best = 0;
  for (int i = 1; i < 16; ++i)
    if (std::abs(value - static_cast<double>(nf4_values()[i])) <
        std::abs(value - static_cast<double>(nf4_values()[best])))
      best = i;
  return best;
}

TEST(Quantised, Nf4CodesAreTheNearestValues) {
  const std::vector<float> values = normal(256, 7);
  const std::vector<std::uint8_t> bytes = quantised(RowForm::kNf4, values);
  ASSERT_EQ(bytes.size(), 128u + 4 * 4);
  for (std::size_t block = 0; block < 4; ++block) {
    float most = 0;
    for (std::size_t i = 0; i < 64; ++i) most = std::max(most, std::abs(values[64 * block + i]));
    EXPECT_EQ(scale_at(bytes, 128 + 4 * block), most);
    for (std::size_t i = 0; i < 64; ++i) {
      const std::size_t at = 64 * block + i;
      const int code = at % 2 == 0 ? bytes[at / 2] >> 4 : bytes[at / 2] & 15;
      EXPECT_EQ(code, nearest(static_cast<double>(values[at] / most))) << at;
    }
  }
}

// As bitsandbytes writes it: the first of two codes in the upper bits; of a midpoint the lower code.
TEST(Quantised, Nf4HasTheBytesOfAStoredExample) {
  std::vector<float> values(64, 0.0F);
  values[0] = 2;                // the scale, code 15
  values[1] = -2;               // code 0
  values[2] = 1.2F;             // 0.6: nearest to 0.5626
  values[3] = nf4_values()[8];  // halved by the scale: the midpoint of codes 7 and 8
  const std::vector<std::uint8_t> bytes = quantised(RowForm::kNf4, values);
  EXPECT_EQ(bytes[0], 0xF0);
  EXPECT_EQ(bytes[1], 0xD7);
  EXPECT_EQ(bytes[2], 0x77);
  EXPECT_EQ(scale_at(bytes, 32), 2.0F);
  values[3] = std::nextafter(values[3], 1.0F);
  EXPECT_EQ(quantised(RowForm::kNf4, values)[1], 0xD8);
}

// Half of the widest gap between values, times the block's scale; int8: half of a 127th of the row's.
TEST(Quantised, ErrorsAreWithinHalfOfAStep) {
  const std::vector<float> values = normal(4096, 3);
  const auto largest = [&](std::size_t begin, std::size_t count) {
    float most = 0;
    for (std::size_t i = begin; i < begin + count; ++i) most = std::max(most, std::abs(values[i]));
    return most;
  };
  const std::vector<float> four = round_trip(RowForm::kNf4, values),
                           eight = round_trip(RowForm::kInt8, values);
  double error = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_LE(std::abs(four[i] - values[i]), 0.1521F * largest(i / 64 * 64, 64)) << i;
    EXPECT_LE(std::abs(eight[i] - values[i]), 0.5001F / 127 * largest(0, 4096)) << i;
    error += std::pow(four[i] - values[i], 2) / values.size();
  }
  EXPECT_LT(std::sqrt(error), 0.12 * 0.02);  // of normal values
  EXPECT_EQ(round_trip(RowForm::kNf4, four), four);
}

TEST(Quantised, RowsOfZerosStayZeros) {
  const std::vector<float> zeros(128, 0.0F);
  EXPECT_EQ(round_trip(RowForm::kNf4, zeros), zeros);
  EXPECT_EQ(round_trip(RowForm::kInt8, zeros), zeros);
}

// 127 divided by such a scale is no float.
TEST(Quantised, TinyValuesHaveTheCodesOfLargeOnes) {
  EXPECT_EQ(quantised(RowForm::kInt8, {1e-37F, 0.0F, -1e-37F})[0], 127);
  EXPECT_EQ(quantised(RowForm::kInt8, {1e-37F, 0.0F, -1e-37F})[1], 0);
}

}  // namespace
}  // namespace trireme::quantised_test
