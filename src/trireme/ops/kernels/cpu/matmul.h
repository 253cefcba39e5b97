// Products of matrices in memory, in any layout, with wide sums.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>

namespace trireme::ops::kernels {

// Element (r, c) lies at data[r * row_stride + c * column_stride]; one of the strides is 1.
struct Matrix {
  void* data = nullptr;
  c10::ScalarType type = c10::ScalarType::Float;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 1;

  Matrix transposed() const { return {data, type, columns, rows, column_stride, row_stride}; }
  // Rows first .. first + count - 1.
  Matrix from_row(std::int64_t first, std::int64_t count) const {
    const auto bytes = static_cast<std::int64_t>(c10::elementSize(type));
    return {static_cast<char*>(data) + first * row_stride * bytes,
            type,
            count,
            columns,
            row_stride,
            column_stride};
  }
};

enum class Into { kReplace, kAdd };

// out = a b, or out += a b. A bias, out.columns numbers of a's type, is added to every row before rounding, if `out`
// has that type and is replaced. a and b have one type. It is double (then out too), or float, BFloat16 or Half with
// sums in fp32 (then out is float, or of their type). Operands that need it are widened tile by tile. Runs on ATen's
// threads; inside at::parallel_for on the calling one. The bits depend on shapes, layouts and the number of threads.
void matmul(const Matrix& a, const Matrix& b, const Matrix& out, Into into = Into::kReplace,
            const void* bias = nullptr);

// Maximum number of bf16 products for which a thread keeps compiled code, by shape and layout. The least recently used
// is dropped. A shape's code takes 20 to 70 KB, and jobs with varying rows bring new shapes in every micro-batch.
inline constexpr std::size_t kMostProducts = 1024;
// Products that the calling thread keeps code for; 0 without oneDNN.
std::size_t kept_products();

}  // namespace trireme::ops::kernels
