// Zigzag: which tokens of a sequence each rank of context parallelism holds.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace trireme::mesh {

// With n ranks a sequence is cut into 2n equal chunks; rank r holds chunks r and 2n - 1 - r, one after the other.
// Under a causal mask an early chunk sees little and a late one much, so that all ranks have the same work.

// Tokens of a rank. Throws Error{kUsage} with the numbers where `tokens` is no multiple of 2 * ranks; any number
// will do for one rank.
std::int64_t zigzag_tokens(std::int64_t tokens, int ranks);

// Position in the sequence of the first token of each of the rank's chunks, which have half its tokens each. For one
// rank the chunks are the two parts of the sequence.
std::array<std::int64_t, 2> zigzag_begins(std::int64_t tokens, int rank, int ranks);

// Position in the sequence of each of the rank's tokens, in its order.
std::vector<std::int64_t> zigzag_positions(std::int64_t tokens, int rank, int ranks);

}  // namespace trireme::mesh
