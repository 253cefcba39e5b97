// Codecs of integers: all senders share a power of two a block, so that sums of their codes are integers, equal in any
// order of adding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trireme/comm/codec/codec.h"

namespace trireme::codec {

// Exponents travel as bytes, exponent + 128: the largest byte is the largest exponent.
inline constexpr std::uint8_t kZeroBlock = 0;      // -128: every sender has zeros only
inline constexpr std::uint8_t kNotFinite = 255;    // 127: some sender has a NaN or an infinity
inline constexpr std::int64_t kExponentBytes = 1;  // of a block

// Senders whose codes fit an int32 together.
std::int64_t most_senders(const Codec& codec);
// Bits of a sum of the codes of so many senders: 4 (two a byte, the first in the lower half), 8, 16 or 32.
int integer_bits(const Codec& codec, std::int64_t senders);

// Of each block of `values` the byte of the least exponent e with absmax <= q_max 2^e, raised to -127 at least. Padding
// counts as zeros.
void find_exponents(const Codec& codec, const Segment& segment, std::span<const float> values,
                    std::span<std::uint8_t> exponents);
// codes = values / 2^e, rounded to nearest even, for exponents that no block of `values` exceeds; 0 in padding and in
// blocks that are zero or not finite.
void encode_integers(const Segment& segment, std::span<const std::uint8_t> exponents,
                     std::span<const float> values, std::span<std::int32_t> codes);
// values = sums 2^e: NaN in blocks that are not finite, 0 in padding.
void decode_integers(const Segment& segment, std::span<const std::uint8_t> exponents,
                     std::span<const std::int32_t> sums, std::span<float> values);

// Integers of so many bits, which hold them, and the inverse, which adds to `sums`.
void pack_integers(int bits, std::span<const std::int32_t> sums, std::span<std::byte> out);
void add_integers(int bits, std::span<const std::byte> in, std::span<std::int32_t> sums);

}  // namespace trireme::codec
