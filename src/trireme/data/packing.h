// Samples that share rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme::data {

// Samples by their index, in the order in which they stand.
using PackedRow = std::vector<std::int64_t>;

// Rows of at most `room` tokens that together have each sample with these lengths, in tokens, once: a function of its
// arguments alone. Samples come in an order drawn from `seed`, and each goes into the fullest of the last rows that has
// room for it. A length of 0 or beyond `room` is left out.
std::vector<PackedRow> pack_rows(std::span<const std::int64_t> lengths, std::int64_t room,
                                 std::uint64_t seed);

}  // namespace trireme::data
