#include "trireme/comm/codec/sparse.h"

#include <array>

#include "trireme/base/hash.h"
#include "trireme/comm/codec/bodies.h"

namespace trireme::codec {
namespace {

using Places = std::array<std::uint16_t, kMostSparse>;
using Values = std::array<float, kMostSparse>;

// Numbers of some bits each, little-endian, padded to a byte at the end.
class BitWriter {
 public:
  explicit BitWriter(std::uint8_t* out) : out_(out) {}
  void put(std::uint32_t value, int bits) {
    held_ |= std::uint64_t{value} << count_;
    for (count_ += bits; count_ >= 8; count_ -= 8, held_ >>= 8)
      *out_++ = static_cast<std::uint8_t>(held_);
  }
  void end() {
    if (count_ > 0) *out_ = static_cast<std::uint8_t>(held_);
  }

 private:
  std::uint8_t* out_;
  std::uint64_t held_ = 0;
  int count_ = 0;
};

class BitReader {
 public:
  explicit BitReader(const std::uint8_t* in) : in_(in) {}
  std::uint32_t get(int bits) {
    for (; count_ < bits; count_ += 8) held_ |= std::uint64_t{*in_++} << count_;
    const auto value = static_cast<std::uint32_t>(held_ & ((std::uint64_t{1} << bits) - 1));
    held_ >>= bits;
    count_ -= bits;
    return value;
  }

 private:
  const std::uint8_t* in_;
  std::uint64_t held_ = 0;
  int count_ = 0;
};

bool has_scale(int bits) { return bits <= 8; }
int index_bits(std::int64_t block) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(block))) - 1;
}

TRIREME_SIMD_INLINE std::int64_t count_from(const std::uint32_t* sizes, std::int64_t count,
                                            std::uint32_t from) {
  std::uint32_t found = 0;
  for (std::int64_t i = 0; i < count; ++i) found += sizes[i] >= from ? 1u : 0u;
  return found;
}

// The `kept` largest magnitudes, ties to the lower index, in ascending order of index. The smallest of them is found
// bit by bit.
TRIREME_SIMD_CLONES void largest_places(const float* x, std::int64_t block, std::int64_t kept,
                                        std::uint16_t* places) {
  std::uint32_t sizes[kMostSparse];
  std::uint32_t most = 0;
  for (std::int64_t i = 0; i < block; ++i) {
    sizes[i] = magnitude_bits(x[i]);
    most = std::max(most, sizes[i]);
  }
  std::uint32_t least = 0;
  std::int64_t from_least = block;
  for (int bit = static_cast<int>(std::bit_width(most)) - 1; bit >= 0 && from_least > kept; --bit) {
    const std::uint32_t trial = least | (1u << bit);
    const std::int64_t from = count_from(sizes, block, trial);
    if (from < kept) continue;
    least = trial;
    from_least = from;
  }
  std::int64_t ties = kept;
  if (from_least > kept) ties -= count_from(sizes, block, least + 1);
  // Without branches, because which elements are kept cannot be predicted.
  for (std::int64_t i = 0, found = 0; i < block; ++i) {
    const bool tie = sizes[i] == least;
    places[found] = static_cast<std::uint16_t>(i);
    found +=
        static_cast<std::int64_t>(sizes[i] > least) | (static_cast<std::int64_t>(tie) & (ties > 0));
    ties -= static_cast<std::int64_t>(tie);
  }
}

// `kept` distinct places in ascending order (Floyd's sampling; Bentley & Floyd 1987).
void drawn_places(std::uint64_t key, std::int64_t block, std::int64_t kept, Places& places) {
  std::array<std::uint64_t, kMostSparse / 64> taken{};
  const auto take = [&](std::uint64_t place) {
    std::uint64_t& word = taken[place / 64];
    const std::uint64_t bit = std::uint64_t{1} << (place % 64);
    const bool was_free = (word & bit) == 0;
    word |= bit;
    return was_free;
  };
  for (auto last = static_cast<std::uint64_t>(block - kept);
       last < static_cast<std::uint64_t>(block); ++last) {
    const std::uint64_t drawn = ((mix(key, last) >> 32) * (last + 1)) >> 32;
    if (!take(drawn)) take(last);
  }
  std::size_t found = 0;
  for (std::size_t word = 0; word < taken.size(); ++word)
    for (std::uint64_t bits = taken[word]; bits != 0; bits &= bits - 1)
      places[found++] =
          static_cast<std::uint16_t>(64 * word + static_cast<std::size_t>(std::countr_zero(bits)));
}

// Code j of `bits` bits decodes to scale (2j + 1 - 2^bits) / (2^bits - 1): evenly spaced, without 0.
float grid_factor(std::uint32_t code, int bits) {
  const int steps = (1 << bits) - 1;
  return static_cast<float>(2 * static_cast<int>(code) - steps) / static_cast<float>(steps);
}
// Nearest such code, ties to even.
std::uint32_t grid_code(float x, float scale, int bits) {
  const auto steps = static_cast<float>((1 << bits) - 1);
  const float place = (x / scale + 1.0f) * 0.5f * steps;
  return static_cast<std::uint32_t>(std::clamp((place + 12582912.0f) - 12582912.0f, 0.0f, steps));
}

std::uint16_t scale_of(const float* values, std::int64_t count, int bits) {
  const std::uint32_t most = largest(values, count);
  if (bits > 1 || most >= kInfinity) return scale_above(most, 1.0f);
  double sum = 0;  // magnitudes, exactly enough: of at most 4096 fp32
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(magnitude(values[i]));
  return nearest_bf16(static_cast<float>(sum / static_cast<double>(count)));
}

std::uint32_t code_of(float x, float scale, int bits) {
  if (bits == 32) return std::bit_cast<std::uint32_t>(x);
  if (bits == 16) return nearest_bf16(x);
  if (bits == 1) return x < 0 ? 1u : 0u;
  return scale > 0 ? grid_code(x, scale, bits) : 0u;
}
float value_of(std::uint32_t code, float scale, int bits) {
  if (bits == 32) return std::bit_cast<float>(code);
  if (bits == 16) return widened(static_cast<std::uint16_t>(code));
  if (bits == 1) return code != 0 ? -scale : scale;
  return scale * grid_factor(code, bits);
}

}  // namespace

std::int64_t sparse_bytes(const Codec& codec, std::int64_t block) {
  const int place = codec.kind == Kind::kTopK ? index_bits(block) : 0;
  return (kept_of(codec, block) * (place + codec.bits) + 7) / 8 + (has_scale(codec.bits) ? 2 : 0);
}

void encode_sparse(const Codec& codec, std::int64_t block, std::int64_t number, const Draws& draws,
                   const float* values, std::uint8_t* out) {
  const std::int64_t kept = kept_of(codec, block);
  const bool top = codec.kind == Kind::kTopK;
  Places places;
  Values sent;
  if (top)
    largest_places(values, block, kept, places.data());
  else
    drawn_places(mix(draws.places, static_cast<std::uint64_t>(number)), block, kept, places);
  const float factor =
      !top && draws.unbiased ? static_cast<float>(block) / static_cast<float>(kept) : 1.0f;
  const auto count = static_cast<std::size_t>(kept);
  for (std::size_t i = 0; i < count; ++i) sent[i] = values[places[i]] * factor;
  float scale = 0;
  if (has_scale(codec.bits)) {
    const std::uint16_t stored = scale_of(sent.data(), kept, codec.bits);
    std::memcpy(out, &stored, sizeof stored);
    out += sizeof stored;
    scale = widened(stored);
  }
  BitWriter bits(out);
  if (top)
    for (std::size_t i = 0; i < count; ++i) bits.put(places[i], index_bits(block));
  for (std::size_t i = 0; i < count; ++i) bits.put(code_of(sent[i], scale, codec.bits), codec.bits);
  bits.end();
}

void decode_sparse(const Codec& codec, std::int64_t block, std::int64_t number, const Draws& draws,
                   const std::uint8_t* in, float* values) {
  const std::int64_t kept = kept_of(codec, block);
  const auto count = static_cast<std::size_t>(kept);
  std::fill_n(values, block, 0.0f);
  float scale = 0;
  if (has_scale(codec.bits)) {
    std::uint16_t stored = 0;
    std::memcpy(&stored, in, sizeof stored);
    in += sizeof stored;
    scale = widened(stored);
  }
  BitReader bits(in);
  Places places;
  if (codec.kind == Kind::kTopK)
    for (std::size_t i = 0; i < count; ++i)
      places[i] = static_cast<std::uint16_t>(bits.get(index_bits(block)));
  else
    drawn_places(mix(draws.places, static_cast<std::uint64_t>(number)), block, kept, places);
  for (std::size_t i = 0; i < count; ++i)
    values[places[i]] = value_of(bits.get(codec.bits), scale, codec.bits);
}

}  // namespace trireme::codec
