// Synthetic tokens for language models, without a file.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/data/loaders/source.h"

namespace trireme::loaders {

// `count` bytes of random words, each followed by a space. The 32 words of 2 to 6 lower-case letters are a function of
// `seed`. Nothing predicts the next word, so that no model gets below ln 32 nats a word. A function of seed and number.
std::vector<std::int64_t> words_sample(std::uint64_t seed, std::int64_t number, std::int64_t count);

// `count` terms of x <- (a x + 1) mod 251 from a random x, with a out of {3, 5, 7, 11, 13, 17, 19, 23}.
std::vector<std::int64_t> affine_sample(std::uint64_t seed, std::int64_t number,
                                        std::int64_t count);

// {tokens, targets} of data.source words or affine. An epoch has data.samples new samples; data.validation gives the
// number of held-out ones.
Sources open_synthetic_tokens(const config::Job& job);

}  // namespace trireme::loaders
