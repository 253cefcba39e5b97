// Products with thin factors: known matrices, one order, and columns that depend on others.
#include "trireme/comm/codec/low_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/comm/codec/codec.h"

namespace trireme::codec::low_rank_test {
namespace {

using Floats = std::vector<float>;

Floats drawn(std::int64_t count, std::uint64_t key) {
  Floats values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(mix(key, i) >> 40) / (1 << 23) - 1;
  return values;
}

double column_product(const Floats& columns, std::int64_t length, int a, int b) {
  double sum = 0;
  for (std::int64_t i = 0; i < length; ++i)
    sum += static_cast<double>(columns[a * length + i]) * columns[b * length + i];
  return sum;
}

// Row-major left * right^T.
Floats matrix_of(const ThinShape& shape, const Floats& left, const Floats& right) {
  Floats matrix(static_cast<std::size_t>(shape.rows * shape.cols));
  expand(shape, left.data(), right.data(), 0, shape.rows * shape.cols, matrix.data());
  return matrix;
}

TEST(LowRank, AMatrixOfAsManyColumnsComesBack) {
  const ThinShape made{.rows = 67, .cols = 45, .rank = 3};
  const Floats matrix = matrix_of(made, drawn(made.left(), 1), drawn(made.right(), 2));
  for (const int rank : {3, 5}) {
    const ThinShape shape{.rows = 67, .cols = 45, .rank = rank};
    Floats left(static_cast<std::size_t>(shape.left()));
    Floats right(static_cast<std::size_t>(shape.right()));
    begin_columns(shape, 7, right.data());
    multiply(shape, matrix.data(), right.data(), left.data());
    orthonormalise(shape, left.data());
    multiply_transposed(shape, matrix.data(), left.data(), right.data());
    const Floats back = matrix_of(shape, left, right);
    double wrong = 0, all = 0;
    for (std::size_t i = 0; i < matrix.size(); ++i) {
      wrong += (back[i] - matrix[i]) * (back[i] - matrix[i]);
      all += matrix[i] * matrix[i];
    }
    EXPECT_LT(std::sqrt(wrong / all), 1e-5) << rank;
  }
}

TEST(LowRank, ColumnsAreOrthonormalAndDependentOnesZero) {
  const ThinShape shape{.rows = 50, .cols = 1, .rank = 4};
  Floats columns = drawn(shape.left(), 3);
  for (std::int64_t i = 0; i < 50; ++i) columns[100 + i] = -2 * columns[i];  // the third
  orthonormalise(shape, columns.data());
  for (int a = 0; a < 4; ++a)
    for (int b = 0; b < 4; ++b)
      EXPECT_NEAR(column_product(columns, 50, a, b), a == b && a != 2 ? 1 : 0, 1e-6) << a << b;
  for (std::int64_t i = 0; i < 50; ++i) EXPECT_EQ(columns[100 + i], 0);
  Floats zeros(200, 0.0f);
  orthonormalise(shape, zeros.data());
  EXPECT_EQ(zeros, Floats(200, 0.0f));
}

TEST(LowRank, ColumnsThatAreNotFiniteBecomeNaN) {
  for (const float value :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const ThinShape shape{.rows = 20, .cols = 1, .rank = 2};
    Floats columns = drawn(shape.left(), 4);
    columns[5] = value;
    orthonormalise(shape, columns.data());
    EXPECT_TRUE(std::isnan(columns[5])) << value;
  }
}

TEST(LowRank, SegmentsOfAProductHaveTheBitsOfTheWhole) {
  const ThinShape shape{.rows = 9, .cols = 37, .rank = 2};
  const Floats left = drawn(shape.left(), 5), right = drawn(shape.right(), 6);
  const Floats whole = matrix_of(shape, left, right);
  Floats parts(whole.size());
  for (const auto& [first, count] : {std::pair{0, 50}, std::pair{50, 1}, std::pair{51, 282}})
    expand(shape, left.data(), right.data(), first, count, parts.data() + first);
  EXPECT_EQ(parts, whole);
}

TEST(LowRank, ColumnsOfZerosAreDrawnAndOthersKeepTheirDirection) {
  const ThinShape shape{.rows = 1, .cols = 30, .rank = 2};
  Floats right = drawn(shape.right(), 8), other(60, 0.0f);
  std::fill_n(right.begin() + 30, 30, 0.0f);
  const float ratio = right[4] / right[3];
  begin_columns(shape, 9, right.data());
  EXPECT_NEAR(right[4] / right[3], ratio, 1e-5);
  for (const int column : {0, 1}) EXPECT_NEAR(column_product(right, 30, column, column), 1, 1e-6);
  begin_columns(shape, 9, other.data());
  EXPECT_EQ(Floats(other.begin() + 30, other.end()), Floats(right.begin() + 30, right.end()));
  EXPECT_NE(Floats(other.begin(), other.begin() + 30), Floats(right.begin() + 30, right.end()));
}

TEST(LowRank, ItsCodecHasARankAndNoBlocks) {
  EXPECT_EQ(print(parse("lowrank:4")), "lowrank:4");
  EXPECT_TRUE(needs_residual(parse("lowrank:4")));
  for (const char* text : {"lowrank", "lowrank:", "lowrank:0", "lowrank:4:1", "lowrank:4000"})
    EXPECT_THROW(parse(text), Error) << text;
  EXPECT_THROW(coded_bytes(parse("lowrank:4"), 256, 256), Error);
}

}  // namespace
}  // namespace trireme::codec::low_rank_test
