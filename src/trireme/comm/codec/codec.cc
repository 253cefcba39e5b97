#include "trireme/comm/codec/codec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/comm/codec/bodies.h"
#include "trireme/comm/codec/dense.h"
#include "trireme/comm/codec/sparse.h"

namespace trireme::codec {
namespace {

constexpr std::string_view kNames[] = {"bf16", "q8",    "q4",  "f4",  "sign",
                                       "topk", "randk", "i8x", "i4x", "lowrank"};
constexpr std::string_view kStochastic = ":stochastic";

std::string_view name(Kind kind) { return kNames[static_cast<std::size_t>(kind)]; }

[[noreturn]] void refuse(std::string_view text) {
  fail(ErrorKind::kUsage,
       "\"{}\" is no codec. Choose bf16, q8, q8:stochastic, q4, q4:stochastic, f4, i8x, i4x, sign, "
       "topk:SHARE:BITS or randk:SHARE:BITS, with a share above 0 and up to 1, and 1 to 8, 16 or "
       "32 bits, or lowrank:RANK with a rank from 1 to {}.",
       text, kMostRank);
}

template <typename Number>
Number number(std::string_view part, std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  if (error != std::errc() || end != part.data() + part.size()) refuse(text);
  return value;
}

std::uint8_t* bytes(std::byte* data) { return reinterpret_cast<std::uint8_t*>(data); }
const std::uint8_t* bytes(const std::byte* data) {
  return reinterpret_cast<const std::uint8_t*>(data);
}

std::int64_t block_bytes(const Codec& codec, std::int64_t block) {
  TRIREME_CHECK(!is_low_rank(codec), "{} codes matrices, not blocks", print(codec));
  return is_sparse(codec) ? sparse_bytes(codec, block) : dense_bytes(codec.kind, block);
}

// Number of blocks, after checks.
std::int64_t blocks_of(const Codec& codec, const Segment& segment, std::size_t values,
                       std::size_t coded) {
  const auto count = static_cast<std::int64_t>(values);
  TRIREME_CHECK(segment.block >= 16 &&
                    std::has_single_bit(static_cast<std::uint64_t>(segment.block)) &&
                    segment.block <= (is_sparse(codec) ? kMostSparse : kMostDense) &&
                    count % segment.block == 0,
                "{} elements in blocks of {}", count, segment.block);
  TRIREME_CHECK(std::cmp_equal(coded, coded_bytes(codec, count, segment.block)),
                "{} bytes for {} elements of {}", coded, count, print(codec));
  return count / segment.block;
}

}  // namespace

bool is_sparse(const Codec& codec) {
  return codec.kind == Kind::kTopK || codec.kind == Kind::kRandK;
}

bool is_integer(const Codec& codec) { return codec.kind == Kind::kI8X || codec.kind == Kind::kI4X; }

bool is_plain(const Codec& codec) {
  return !is_sparse(codec) && !is_integer(codec) && !needs_residual(codec);
}
bool is_low_rank(const Codec& codec) { return codec.kind == Kind::kLowRank; }

bool needs_residual(const Codec& codec) {
  return codec.kind == Kind::kSign || codec.kind == Kind::kTopK || is_low_rank(codec);
}

Codec parse(std::string_view text) {
  const std::string_view head = text.substr(0, text.find(':'));
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), head);
  if (found == std::end(kNames)) refuse(text);
  Codec codec{.kind = static_cast<Kind>(found - std::begin(kNames))};
  if (is_low_rank(codec)) {
    codec.rank = number<int>(text.substr(std::min(head.size() + 1, text.size())), text);
    if (codec.rank < 1 || codec.rank > kMostRank) refuse(text);
    return codec;
  }
  if (!is_sparse(codec)) {
    codec.stochastic = (codec.kind == Kind::kQ8 || codec.kind == Kind::kQ4) &&
                       text.substr(head.size()) == kStochastic;
    if (head.size() != text.size() && !codec.stochastic) refuse(text);
    return codec;
  }
  const std::size_t second = text.find(':', head.size() + 1);
  if (head.size() == text.size() || second == std::string_view::npos) refuse(text);
  codec.share = number<double>(text.substr(head.size() + 1, second - head.size() - 1), text);
  codec.bits = number<int>(text.substr(second + 1), text);
  const bool narrow = codec.bits >= 1 && codec.bits <= 8;
  if (!(codec.share > 0 && codec.share <= 1) || !(narrow || codec.bits == 16 || codec.bits == 32))
    refuse(text);
  return codec;
}

std::string print(const Codec& codec) {
  if (is_low_rank(codec)) return fmt::format("{}:{}", name(codec.kind), codec.rank);
  if (!is_sparse(codec))
    return fmt::format("{}{}", name(codec.kind), codec.stochastic ? kStochastic : "");
  return fmt::format("{}:{}:{}", name(codec.kind), codec.share, codec.bits);
}

std::int64_t block_of(const Codec& codec, std::int64_t norm_chunk) {
  return std::min(is_sparse(codec) ? kMostSparse : kMostDense, norm_chunk);
}

std::int64_t kept_of(const Codec& codec, std::int64_t block) {
  return std::max<std::int64_t>(1, std::llround(static_cast<double>(block) * codec.share));
}

std::int64_t coded_bytes(const Codec& codec, std::int64_t count, std::int64_t block) {
  return count / block * block_bytes(codec, block);
}

Draws draws_of(std::uint64_t seed, std::uint64_t update, std::uint64_t sender, std::uint64_t unit) {
  return with_sender({.places = mix(mix(mix(0, seed), update), unit)}, sender);
}

Draws with_sender(Draws draws, std::uint64_t sender) {
  draws.noise = mix(draws.places, sender + 1);
  return draws;
}

void encode(const Codec& codec, const Segment& segment, const Draws& draws,
            std::span<const float> values, std::span<std::byte> out) {
  const std::int64_t all = blocks_of(codec, segment, values.size(), out.size());
  const std::int64_t each = block_bytes(codec, segment.block);
  const std::int64_t whole = std::clamp<std::int64_t>(segment.real / segment.block, 0, all);
  const auto run = [&](const float* from, std::int64_t begin, std::int64_t count,
                       std::int64_t real) {
    if (count == 0) return;
    std::uint8_t* to = bytes(out.data()) + begin * each;
    const Segment part{segment.block, segment.first + begin, 0};
    if (!is_sparse(codec)) return encode_dense(codec, part, draws, from, count, real, to);
    for (std::int64_t b = 0; b < count; ++b)
      encode_sparse(codec, segment.block, part.first + b, draws, from + b * segment.block,
                    to + b * each);
  };
  run(values.data(), 0, whole, segment.block);
  if (whole == all) return;
  // The block in which padding begins; the rest is padding.
  const std::int64_t real = std::max<std::int64_t>(segment.real - whole * segment.block, 0);
  std::array<float, kMostSparse> last{};
  std::copy_n(values.data() + whole * segment.block, real, last.data());
  run(last.data(), whole, 1, std::max<std::int64_t>(real, 1));
  std::fill_n(last.data(), real, 0.0f);
  for (std::int64_t b = whole + 1; b < all; ++b) run(last.data(), b, 1, 1);
}

void decode(const Codec& codec, const Segment& segment, const Draws& draws,
            std::span<const std::byte> in, std::span<float> values) {
  const std::int64_t all = blocks_of(codec, segment, values.size(), in.size());
  const std::int64_t each = block_bytes(codec, segment.block);
  const auto count = static_cast<std::int64_t>(values.size());
  const std::int64_t real = std::clamp<std::int64_t>(segment.real, 0, count);
  const std::int64_t some = (real + segment.block - 1) / segment.block;  // blocks that hold any
  if (!is_sparse(codec))
    decode_dense(codec.kind, segment.block, bytes(in.data()), some, values.data());
  else
    for (std::int64_t b = 0; b < some; ++b)
      decode_sparse(codec, segment.block, segment.first + b, draws, bytes(in.data()) + b * each,
                    values.data() + b * segment.block);
  TRIREME_CHECK(some <= all, "{} of {} blocks", some, all);
  std::fill(values.begin() + real, values.end(), 0.0f);
}

}  // namespace trireme::codec
