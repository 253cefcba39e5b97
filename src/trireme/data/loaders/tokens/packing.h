// Samples that share rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme::loaders {

// Part of a row that a sample takes, or capacity of a row.
struct Outline {
  std::int64_t tokens = 0;
  std::int64_t tiles = 0;
};

// Samples by their index, in the order in which they stand.
using PackedRow = std::vector<std::int64_t>;

// Rows within `room` that together have each of these samples once: a function of its arguments alone. Samples come in
// an order drawn from `seed`, and each joins the fullest of the last rows that has space for it. Samples without tokens
// or beyond `room` are left out.
std::vector<PackedRow> pack_rows(std::span<const Outline> samples, Outline room,
                                 std::uint64_t seed);

}  // namespace trireme::loaders
