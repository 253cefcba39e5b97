// Codecs of gradients between hosts: pure functions from fp32 to bytes and back, with the same bytes on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trireme::codec {

enum class Kind : std::uint8_t {
  kBF16,     // rounded to nearest even
  kQ8,       // bf16 scale, codes -127..127
  kQ4,       // bf16 scale, codes -7..7, two a byte
  kF4,       // fp32 largest magnitude a, two codes a byte: sign and level L, 0 or 2^(L-7) a
  kSign,     // bf16 mean of magnitudes, one bit an element
  kTopK,     // largest magnitudes with their indices
  kRandK,    // elements at places that are equal for all senders
  kI8X,      // a power of two for all senders, codes -127..127, whose sums are integers (integer.h)
  kI4X,      // the same, codes -7..7
  kLowRank,  // factors of whole matrices, which low_rank.h makes of them
};

inline constexpr int kMostRank = 1024;  // columns of a low-rank codec's factors

// Sparse codecs send `share` of a block's elements, at least one, in `bits` (1 to 8, 16 or 32) each. `stochastic` codes,
// those of q8 and q4 only, are rounded by noise in place of to nearest. Factors have `rank` columns.
struct Codec {
  Kind kind = Kind::kQ8;
  double share = 0;
  int bits = 0;
  bool stochastic = false;
  int rank = 0;
  bool operator==(const Codec&) const = default;
};

// "bf16", "q8", "q8:stochastic", "q4", "q4:stochastic", "f4", "sign", "topk:SHARE:BITS", "randk:SHARE:BITS", "i8x",
// "i4x", "lowrank:RANK". Throws Error{kUsage} for other texts.
Codec parse(std::string_view text);
std::string print(const Codec& codec);
bool is_sparse(const Codec& codec);
// Whether senders share exponents, so that their codes can be added: their functions are those of
// integer.h, not those below.
bool is_integer(const Codec& codec);
bool is_low_rank(const Codec& codec);
// Whether its codes need nothing else, neither residuals nor other senders: bf16, q8, q4 and f4.
bool is_plain(const Codec& codec);
// Whether training diverges with it unless senders keep residuals: sign, topk and lowrank.
bool needs_residual(const Codec& codec);

// Elements coded together in a unit whose norm is summed in chunks of `norm_chunk` elements: at most 256, of sparse
// codecs 4096. Shards hold whole norm chunks, hence whole blocks.
std::int64_t block_of(const Codec& codec, std::int64_t norm_chunk);
// Elements of a block of `block` that a sparse codec sends.
std::int64_t kept_of(const Codec& codec, std::int64_t block);
// Bytes of `count` elements, which are whole blocks. A block's bytes are contiguous, its scale first. Low-rank codes have
// no blocks: this, encode() and decode() throw Error{kInternal} for them.
std::int64_t coded_bytes(const Codec& codec, std::int64_t count, std::int64_t block);

// Randomness of one sum: a function of global coordinates, so that noise is the same in every layout.
struct Draws {
  std::uint64_t noise = 0;   // key of (seed, update, sender, unit): of stochastic codes
  std::uint64_t places = 0;  // key of (seed, update, unit): of randk, equal for all senders
  bool unbiased = true;      // randk: values are divided by the share that is sent
};
Draws draws_of(std::uint64_t seed, std::uint64_t update, std::uint64_t sender, std::uint64_t unit);
// Those of the same sum with the noise of another sender; kWhole codes the whole sum.
inline constexpr std::uint64_t kWhole = ~std::uint64_t{0};
Draws with_sender(Draws draws, std::uint64_t sender);

// Segment of a unit: whole blocks from block number `first` of the unit on. Elements from `real` on are padding, which
// is coded as zeros and decoded to 0.
struct Segment {
  std::int64_t block = 0;
  std::int64_t first = 0;
  std::int64_t real = 0;
};

// `values` are whole blocks, `out` has coded_bytes() of them. A block with a NaN or an infinity decodes to NaN; bf16 and
// sparse codecs with 16 or 32 bits keep single ones. Throws Error{kInternal} if sizes disagree.
void encode(const Codec& codec, const Segment& segment, const Draws& draws,
            std::span<const float> values, std::span<std::byte> out);
// The inverse. Only randk reads `draws`.
void decode(const Codec& codec, const Segment& segment, const Draws& draws,
            std::span<const std::byte> in, std::span<float> values);

}  // namespace trireme::codec
