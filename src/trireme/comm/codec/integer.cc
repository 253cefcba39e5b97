#include "trireme/comm/codec/integer.h"

#include <algorithm>
#include <limits>

#include "trireme/base/error.h"
#include "trireme/comm/codec/integer_bodies.h"

namespace trireme::codec {
namespace {

// Elements of a block that are not padding.
std::int64_t real_in(const Segment& segment, std::int64_t number) {
  return std::clamp<std::int64_t>(segment.real - number * segment.block, 0, segment.block);
}

std::int64_t exponents_of(const Segment& segment, std::size_t values, std::size_t exponents) {
  const auto count = static_cast<std::int64_t>(values), blocks = count / segment.block;
  TRIREME_CHECK(segment.block >= 16 && segment.block <= kMostDense && count % segment.block == 0 &&
                    std::cmp_equal(exponents, blocks),
                "{} exponents of {} elements in blocks of {}", exponents, count, segment.block);
  return blocks;
}

TRIREME_SIMD_CLONES void find_in_blocks(const Segment& segment, std::int64_t blocks, float most,
                                        const float* values, std::uint8_t* out) {
  for (std::int64_t b = 0; b < blocks; ++b)
    out[b] = exponent_byte(largest(values + b * segment.block, real_in(segment, b)), most);
}

TRIREME_SIMD_CLONES void encode_blocks(const Segment& segment, std::int64_t blocks,
                                       const std::uint8_t* exponents, const float* values,
                                       std::int32_t* codes) {
  for (std::int64_t b = 0; b < blocks; ++b, values += segment.block, codes += segment.block) {
    const bool empty = exponents[b] == kZeroBlock || exponents[b] == kNotFinite;
    const std::int64_t real = empty ? 0 : real_in(segment, b);
    to_integers(values, real, inverse_power(exponents[b]), codes);
    std::fill(codes + real, codes + segment.block, 0);
  }
}

TRIREME_SIMD_CLONES void decode_blocks(const Segment& segment, std::int64_t blocks,
                                       const std::uint8_t* exponents, const std::int32_t* sums,
                                       float* values) {
  for (std::int64_t b = 0; b < blocks; ++b, values += segment.block, sums += segment.block) {
    const std::int64_t real = real_in(segment, b);
    from_integers(sums, real, power(exponents[b]), values);
    std::fill(values + real, values + segment.block, 0.0f);
  }
}

TRIREME_SIMD_CLONES void pack_nibbles(const std::int32_t* in, std::int64_t count,
                                      std::uint8_t* out) {
  for (std::int64_t i = 0; i < count / 2; ++i)
    out[i] = static_cast<std::uint8_t>((in[2 * i] & 0xF) | ((in[2 * i + 1] & 0xF) << 4));
}
TRIREME_SIMD_CLONES void add_nibbles(const std::uint8_t* in, std::int64_t count,
                                     std::int32_t* sums) {
  for (std::int64_t i = 0; i < count / 2; ++i) {
    sums[2 * i] += ((in[i] & 0xF) ^ 8) - 8;
    sums[2 * i + 1] += ((in[i] >> 4) ^ 8) - 8;
  }
}
TRIREME_SIMD_CLONES void pack_bytes(const std::int32_t* in, std::int64_t count, std::uint8_t* out) {
  pack_as<std::int8_t>(in, count, out);
}
TRIREME_SIMD_CLONES void add_bytes(const std::uint8_t* in, std::int64_t count, std::int32_t* sums) {
  add_as<std::int8_t>(in, count, sums);
}
TRIREME_SIMD_CLONES void pack_pairs(const std::int32_t* in, std::int64_t count, std::uint8_t* out) {
  pack_as<std::int16_t>(in, count, out);
}
TRIREME_SIMD_CLONES void add_pairs(const std::uint8_t* in, std::int64_t count, std::int32_t* sums) {
  add_as<std::int16_t>(in, count, sums);
}
TRIREME_SIMD_CLONES void add_words(const std::uint8_t* in, std::int64_t count, std::int32_t* sums) {
  add_as<std::int32_t>(in, count, sums);
}

float most_of(const Codec& codec) {
  TRIREME_CHECK(is_integer(codec), "{} has no codes of integers", print(codec));
  return codec.kind == Kind::kI8X ? 127.0f : 7.0f;
}

std::int64_t packed(int bits, std::size_t sums, std::size_t bytes) {
  TRIREME_CHECK(sums % 2 == 0 && bytes == sums * static_cast<std::size_t>(bits) / 8,
                "{} bytes for {} integers of {} bits", bytes, sums, bits);
  return static_cast<std::int64_t>(sums);
}

}  // namespace

std::int64_t most_senders(const Codec& codec) {
  return std::numeric_limits<std::int32_t>::max() / static_cast<std::int64_t>(most_of(codec));
}

int integer_bits(const Codec& codec, std::int64_t senders) {
  const auto most = static_cast<std::int64_t>(most_of(codec));
  TRIREME_CHECK(senders >= 1 && senders <= most_senders(codec), "{} senders of {}", senders,
                print(codec));
  if (codec.kind == Kind::kI4X && senders == 1) return 4;
  if (senders * most <= std::numeric_limits<std::int8_t>::max()) return 8;
  return senders * most <= std::numeric_limits<std::int16_t>::max() ? 16 : 32;
}

void find_exponents(const Codec& codec, const Segment& segment, std::span<const float> values,
                    std::span<std::uint8_t> exponents) {
  find_in_blocks(segment, exponents_of(segment, values.size(), exponents.size()), most_of(codec),
                 values.data(), exponents.data());
}

void encode_integers(const Segment& segment, std::span<const std::uint8_t> exponents,
                     std::span<const float> values, std::span<std::int32_t> codes) {
  TRIREME_CHECK(codes.size() == values.size(), "{} codes of {} elements", codes.size(),
                values.size());
  encode_blocks(segment, exponents_of(segment, values.size(), exponents.size()), exponents.data(),
                values.data(), codes.data());
}

void decode_integers(const Segment& segment, std::span<const std::uint8_t> exponents,
                     std::span<const std::int32_t> sums, std::span<float> values) {
  TRIREME_CHECK(sums.size() == values.size(), "{} sums for {} elements", sums.size(),
                values.size());
  decode_blocks(segment, exponents_of(segment, values.size(), exponents.size()), exponents.data(),
                sums.data(), values.data());
}

void pack_integers(int bits, std::span<const std::int32_t> sums, std::span<std::byte> out) {
  const std::int64_t count = packed(bits, sums.size(), out.size());
  auto* const to = reinterpret_cast<std::uint8_t*>(out.data());
  switch (bits) {
    case 4: return pack_nibbles(sums.data(), count, to);
    case 8: return pack_bytes(sums.data(), count, to);
    case 16: return pack_pairs(sums.data(), count, to);
    default: std::memcpy(to, sums.data(), out.size());
  }
}

void add_integers(int bits, std::span<const std::byte> in, std::span<std::int32_t> sums) {
  const std::int64_t count = packed(bits, sums.size(), in.size());
  const auto* const from = reinterpret_cast<const std::uint8_t*>(in.data());
  switch (bits) {
    case 4: return add_nibbles(from, count, sums.data());
    case 8: return add_bytes(from, count, sums.data());
    case 16: return add_pairs(from, count, sums.data());
    default: return add_words(from, count, sums.data());
  }
}

}  // namespace trireme::codec
