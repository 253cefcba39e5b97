// Low-rank codes of a matrix: products with thin factors in one fixed order.
#pragma once

#include <cstdint>

namespace trireme::codec {

// A row-major matrix M of rows x cols and its factors. P has `rank` columns of `rows` elements, Q as many of
// `cols` elements, one column after the other. PowerSGD (Vogels, Karimireddy & Jaggi 2019): P = M Q, orthonormalised;
// Q = M^T P; M is about P Q^T.
struct ThinShape {
  std::int64_t rows = 0, cols = 0;
  int rank = 0;
  std::int64_t left() const { return rank * rows; }   // elements of P
  std::int64_t right() const { return rank * cols; }  // and of Q
};

void multiply(const ThinShape& shape, const float* matrix, const float* right, float* left);
void multiply_transposed(const ThinShape& shape, const float* matrix, const float* left,
                         float* right);
// Elements [first, first + count) of P Q^T.
void expand(const ThinShape& shape, const float* left, const float* right, std::int64_t first,
            std::int64_t count, float* out);

// Modified Gram-Schmidt in fp64, in the order of the columns. A column that depends on earlier ones becomes zero; one
// that is not finite makes itself and later ones NaN.
void orthonormalise(const ThinShape& shape, float* left);
// Brings the columns of Q to length 1. A column of zeros is drawn from `key`, because it would stay zero for ever.
void begin_columns(const ThinShape& shape, std::uint64_t key, float* right);

}  // namespace trireme::codec
