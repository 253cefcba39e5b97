// Texts whose best possible loss is known.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::synthetic {

// 32 words of 2 to 6 lower-case letters.
std::vector<std::string> vocabulary(std::uint64_t seed);

// Sample i of a task:
//   words   words of the vocabulary, each drawn alone, with a space after each
//   affine  bytes x -> (a x + 1) mod 251 from any x, a one of 3 5 7 11 13 17 19 23: in all `length` of them
//   repeat  random letters, a colon, the same letters again and the end of the line, until length is reached
std::string text_sample(const std::string& task, std::uint64_t seed, std::int64_t i,
                        std::int64_t length);

}  // namespace trireme::synthetic
