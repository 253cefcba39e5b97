// A matrix whose rows become columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace trireme::convert {

// The transpose of `rows` x `columns` elements of `width` bytes.
inline std::vector<std::byte> turn(std::span<const std::byte> in, std::int64_t rows,
                                   std::int64_t columns, std::size_t width) {
  std::vector<std::byte> out(in.size());
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      std::memcpy(out.data() + static_cast<std::size_t>(c * rows + r) * width,
                  in.data() + static_cast<std::size_t>(r * columns + c) * width, width);
  return out;
}

}  // namespace trireme::convert
