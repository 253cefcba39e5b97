// Matrix: a parameter of two dimensions inside its unit.
#pragma once

#include <cstdint>

namespace trireme::plan {

struct Matrix {
  std::int64_t offset = 0;  // of its first element in the unit
  std::int64_t rows = 0, cols = 0;
  std::int64_t numel() const { return rows * cols; }
  std::int64_t end() const { return offset + numel(); }
  bool operator==(const Matrix&) const = default;
};

}  // namespace trireme::plan
