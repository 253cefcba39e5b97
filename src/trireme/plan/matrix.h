// Matrix: a parameter of two dimensions inside its unit, or one of several that lie one below the other in it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace trireme::plan {

struct Matrix {
  std::int64_t offset = 0;  // of its first element in the unit
  std::int64_t rows = 0, cols = 0;
  int owner =
      -1;  // of a unit that is updated by matrix: which of the unit's shards computes its update
  std::int64_t numel() const { return rows * cols; }
  std::int64_t end() const { return offset + numel(); }
  // How many of its elements are among [begin, end) of the unit.
  std::int64_t within(std::int64_t from, std::int64_t to) const {
    return std::max<std::int64_t>(std::min(to, end()) - std::max(from, offset), 0);
  }
  bool operator==(const Matrix&) const = default;
};

}  // namespace trireme::plan
