#include "trireme/comm/codec/dense.h"

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/comm/codec/bodies.h"

namespace trireme::codec {
namespace {

constexpr float kMost8 = 127, kMost4 = 7;
constexpr std::int64_t kScale = 2;  // bytes of bf16

TRIREME_SIMD_INLINE void put_scale(std::uint8_t* out, std::uint16_t scale) {
  std::memcpy(out, &scale, sizeof scale);
}
TRIREME_SIMD_INLINE float get_scale(const std::uint8_t* in) {
  std::uint16_t scale = 0;
  std::memcpy(&scale, in, sizeof scale);
  return widened(scale);
}

struct Blocks {
  const float* values;
  std::int64_t block;
  std::int64_t count;
  std::int64_t first;  // number of the first one in its unit
  std::int64_t real;   // elements of the last one
  std::uint64_t noise;
};

// Codes of a block; none but zeros if it is all zeros or not finite.
template <bool kStochastic>
TRIREME_SIMD_INLINE std::uint16_t codes_of(const Blocks& blocks, std::int64_t number, float most,
                                           std::int8_t* codes) {
  const float* const x = blocks.values + number * blocks.block;
  const std::uint16_t scale = scale_above(largest(x, blocks.block), most);
  if (scale == 0 || scale == kNaN16) {
    std::memset(codes, 0, static_cast<std::size_t>(blocks.block));
  } else {
    const std::uint64_t key =
        kStochastic ? mix(blocks.noise, static_cast<std::uint64_t>(blocks.first + number)) : 0;
    quantise<kStochastic>(x, blocks.block, widened(scale), most, static_cast<std::uint32_t>(key),
                          codes);
  }
  return scale;
}

template <bool kStochastic>
TRIREME_SIMD_INLINE void encode_bytes(const Blocks& blocks, std::uint8_t* out) {
  for (std::int64_t b = 0; b < blocks.count; ++b, out += kScale + blocks.block) {
    auto* const codes = reinterpret_cast<std::int8_t*>(out + kScale);
    put_scale(out, codes_of<kStochastic>(blocks, b, kMost8, codes));
  }
}
template <bool kStochastic>
TRIREME_SIMD_INLINE void encode_nibbles(const Blocks& blocks, std::uint8_t* out) {
  std::int8_t codes[kMostDense];
  for (std::int64_t b = 0; b < blocks.count; ++b, out += kScale + blocks.block / 2) {
    put_scale(out, codes_of<kStochastic>(blocks, b, kMost4, codes));
    pack(codes, blocks.block, out + kScale);
  }
}

TRIREME_SIMD_CLONES void encode_q8(const Blocks& blocks, std::uint8_t* out) {
  encode_bytes<false>(blocks, out);
}
TRIREME_SIMD_CLONES void encode_q8_stochastic(const Blocks& blocks, std::uint8_t* out) {
  encode_bytes<true>(blocks, out);
}
TRIREME_SIMD_CLONES void encode_q4(const Blocks& blocks, std::uint8_t* out) {
  encode_nibbles<false>(blocks, out);
}
TRIREME_SIMD_CLONES void encode_q4_stochastic(const Blocks& blocks, std::uint8_t* out) {
  encode_nibbles<true>(blocks, out);
}

TRIREME_SIMD_CLONES void encode_bf16(const Blocks& blocks, std::uint8_t* out) {
  auto* const to = reinterpret_cast<std::uint16_t*>(out);
  for (std::int64_t i = 0; i < blocks.count * blocks.block; ++i) {
    const std::uint16_t bits = nearest_bf16(blocks.values[i]);
    std::memcpy(to + i, &bits, sizeof bits);
  }
}

TRIREME_SIMD_CLONES void encode_f4(const Blocks& blocks, std::uint8_t* out) {
  constexpr std::int64_t kHead = 4;
  std::int8_t codes[kMostDense];
  for (std::int64_t b = 0; b < blocks.count; ++b, out += kHead + blocks.block / 2) {
    const float* const x = blocks.values + b * blocks.block;
    std::uint32_t most = largest(x, blocks.block);
    const bool finite = most < kInfinity;
    if (finite)
      nearest_levels(x, blocks.block, std::bit_cast<float>(most), codes);
    else
      std::memset(codes, 0, sizeof codes);
    if (!finite) most = std::uint32_t{kNaN16} << 16;
    std::memcpy(out, &most, sizeof most);
    pack(codes, blocks.block, out + kHead);
  }
}

TRIREME_SIMD_CLONES void encode_sign(const Blocks& blocks, std::uint8_t* out) {
  for (std::int64_t b = 0; b < blocks.count; ++b, out += kScale + blocks.block / 8) {
    const float* const x = blocks.values + b * blocks.block;
    const std::int64_t real = b + 1 == blocks.count ? blocks.real : blocks.block;
    const float mean = sum_of_magnitudes(x, blocks.block, real) / static_cast<float>(real);
    put_scale(out, largest(x, blocks.block) < kInfinity ? nearest_bf16(mean) : kNaN16);
    pack_signs(x, blocks.block, out + kScale);
  }
}

TRIREME_SIMD_CLONES void decode_bf16(std::int64_t block, const std::uint8_t* in,
                                     std::int64_t blocks, float* __restrict values) {
  for (std::int64_t i = 0; i < blocks * block; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, in + 2 * i, sizeof bits);
    values[i] = widened(bits);
  }
}

TRIREME_SIMD_CLONES void decode_q8(std::int64_t block, const std::uint8_t* in, std::int64_t blocks,
                                   float* __restrict values) {
  for (std::int64_t b = 0; b < blocks; ++b, in += kScale + block, values += block) {
    const float scale = get_scale(in);
    const auto* const codes = reinterpret_cast<const std::int8_t*>(in + kScale);
    for (std::int64_t i = 0; i < block; ++i) values[i] = scale * static_cast<float>(codes[i]);
  }
}

TRIREME_SIMD_CLONES void decode_q4(std::int64_t block, const std::uint8_t* in, std::int64_t blocks,
                                   float* __restrict values) {
  std::uint8_t halves[kMostDense];
  for (std::int64_t b = 0; b < blocks; ++b, in += kScale + block / 2, values += block) {
    const float scale = get_scale(in);
    unpack(in + kScale, block, halves);
    for (std::int64_t i = 0; i < block; ++i) {
      const std::int32_t code = (static_cast<std::int32_t>(halves[i]) ^ 8) - 8;
      values[i] = scale * static_cast<float>(code);
    }
  }
}

TRIREME_SIMD_CLONES void decode_f4(std::int64_t block, const std::uint8_t* in, std::int64_t blocks,
                                   float* __restrict values) {
  std::uint8_t halves[kMostDense];
  for (std::int64_t b = 0; b < blocks; ++b, in += 4 + block / 2, values += block) {
    float most = 0;
    std::memcpy(&most, in, sizeof most);
    unpack(in + 4, block, halves);
    for (std::int64_t i = 0; i < block; ++i) values[i] = level_value(halves[i], most);
  }
}

TRIREME_SIMD_CLONES void decode_sign(std::int64_t block, const std::uint8_t* in,
                                     std::int64_t blocks, float* values) {
  for (std::int64_t b = 0; b < blocks; ++b, in += kScale + block / 8, values += block)
    unpack_signs(in + kScale, block, get_scale(in), values);
}

}  // namespace

std::int64_t dense_bytes(Kind kind, std::int64_t block) {
  switch (kind) {
    case Kind::kBF16: return 2 * block;
    case Kind::kQ8: return kScale + block;
    case Kind::kQ4: return kScale + block / 2;
    case Kind::kF4: return 4 + block / 2;
    case Kind::kSign: return kScale + block / 8;
    case Kind::kTopK:
    case Kind::kRandK:
    case Kind::kI8X:
    case Kind::kI4X:
    case Kind::kLowRank: break;
  }
  fail(ErrorKind::kInternal, "a codec that has no dense blocks");
}

void encode_dense(const Codec& codec, const Segment& segment, const Draws& draws,
                  const float* values, std::int64_t blocks, std::int64_t real, std::uint8_t* out) {
  const Blocks all{.values = values,
                   .block = segment.block,
                   .count = blocks,
                   .first = segment.first,
                   .real = real,
                   .noise = draws.noise};
  switch (codec.kind) {
    case Kind::kBF16: return encode_bf16(all, out);
    case Kind::kQ8: return codec.stochastic ? encode_q8_stochastic(all, out) : encode_q8(all, out);
    case Kind::kQ4: return codec.stochastic ? encode_q4_stochastic(all, out) : encode_q4(all, out);
    case Kind::kF4: return encode_f4(all, out);
    case Kind::kSign: return encode_sign(all, out);
    case Kind::kTopK:
    case Kind::kRandK:
    case Kind::kI8X:
    case Kind::kI4X:
    case Kind::kLowRank: break;
  }
  fail(ErrorKind::kInternal, "a codec that has no dense blocks");
}

void decode_dense(Kind kind, std::int64_t block, const std::uint8_t* in, std::int64_t blocks,
                  float* values) {
  switch (kind) {
    case Kind::kBF16: return decode_bf16(block, in, blocks, values);
    case Kind::kQ8: return decode_q8(block, in, blocks, values);
    case Kind::kQ4: return decode_q4(block, in, blocks, values);
    case Kind::kF4: return decode_f4(block, in, blocks, values);
    case Kind::kSign: return decode_sign(block, in, blocks, values);
    case Kind::kTopK:
    case Kind::kRandK:
    case Kind::kI8X:
    case Kind::kI4X:
    case Kind::kLowRank: break;
  }
  fail(ErrorKind::kInternal, "a codec that has no dense blocks");
}

}  // namespace trireme::codec
