#include "trireme/comm/codec/low_rank.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "trireme/base/hash.h"
#include "trireme/base/simd.h"

namespace trireme::codec {
namespace {

constexpr std::int64_t kLanes = 32;  // partial sums of a dot product, whatever the width of vectors

TRIREME_SIMD_INLINE float dot(const float* __restrict a, const float* __restrict b,
                              std::int64_t count) {
  float lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  for (std::int64_t lane = 0; i + lane < count; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  for (std::int64_t width = kLanes / 2; width > 0; width /= 2)
    for (std::int64_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  return lanes[0];
}

TRIREME_SIMD_INLINE void add_scaled(const float* __restrict from, float factor, std::int64_t count,
                                    float* __restrict to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

double dot_of(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

TRIREME_SIMD_CLONES
void multiply(const ThinShape& shape, const float* matrix, const float* right, float* left) {
  for (std::int64_t row = 0; row < shape.rows; ++row)
    for (int k = 0; k < shape.rank; ++k)
      left[k * shape.rows + row] =
          dot(matrix + row * shape.cols, right + k * shape.cols, shape.cols);
}

TRIREME_SIMD_CLONES
void multiply_transposed(const ThinShape& shape, const float* matrix, const float* left,
                         float* right) {
  std::fill_n(right, shape.right(), 0.0f);
  for (std::int64_t row = 0; row < shape.rows; ++row)
    for (int k = 0; k < shape.rank; ++k)
      add_scaled(matrix + row * shape.cols, left[k * shape.rows + row], shape.cols,
                 right + k * shape.cols);
}

TRIREME_SIMD_CLONES
void expand(const ThinShape& shape, const float* left, const float* right, std::int64_t first,
            std::int64_t count, float* out) {
  std::fill_n(out, count, 0.0f);
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t row = (first + done) / shape.cols, col = (first + done) % shape.cols;
    const std::int64_t some = std::min(shape.cols - col, count - done);
    for (int k = 0; k < shape.rank; ++k)
      add_scaled(right + k * shape.cols + col, left[k * shape.rows + row], some, out + done);
    done += some;
  }
}

void orthonormalise(const ThinShape& shape, float* left) {
  // Columns are rounded to fp32 before. What is left of a dependent one is their rounding in fp64.
  constexpr double kDependent = 1e-12;
  std::vector<std::vector<double>> columns;
  for (int k = 0; k < shape.rank; ++k) {
    float* const from = left + k * shape.rows;
    std::vector<double> column(from, from + shape.rows);
    const double before = std::sqrt(dot_of(column, column));
    for (const std::vector<double>& earlier : columns) {
      const double part = dot_of(column, earlier);
      for (std::size_t i = 0; i < column.size(); ++i) column[i] -= part * earlier[i];
    }
    const double length = std::sqrt(dot_of(column, column));
    const bool depends = std::isfinite(before) && length <= kDependent * before;
    for (double& value : column) value = depends ? 0 : value / length;
    std::copy(column.begin(), column.end(), from);
    columns.push_back(std::move(column));
  }
}

void begin_columns(const ThinShape& shape, std::uint64_t key, float* right) {
  for (int k = 0; k < shape.rank; ++k) {
    float* const to = right + k * shape.cols;
    std::vector<double> column(to, to + shape.cols);
    if (std::ranges::all_of(column, [](double value) { return value == 0; }))
      for (std::int64_t i = 0; i < shape.cols; ++i) {
        const std::uint64_t bits = mix(key, static_cast<std::uint64_t>(k * shape.cols + i)) >> 40;
        column[i] = static_cast<double>(bits) / (1 << 23) - 1;
      }
    const double length = std::sqrt(dot_of(column, column));
    for (std::int64_t i = 0; i < shape.cols; ++i) to[i] = static_cast<float>(column[i] / length);
  }
}

}  // namespace trireme::codec
