// Products of attention's tiles in bf16 with sums in fp32, by the instruction that adds the products of two pairs in
// every lane (AVX-512 BF16). A right operand is packed once and multiplied many times; of every product only what the
// mask shows is computed.
#pragma once

#include <c10/util/BFloat16.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "trireme/ops/kernels/cpu/scores.h"

namespace trireme::ops::kernels {

inline constexpr std::int64_t kPanel = 16;  // columns of a right operand that lie together
inline constexpr std::int64_t kStrip = 4;   // rows of a product that are computed together

inline constexpr std::int64_t round_up(std::int64_t count, std::int64_t step) {
  return (count + step - 1) / step * step;
}

// A right operand [inner, columns], both rounded up with zeros. Panels of 16 columns, each [inner / 2, 16] pairs of
// elements that follow each other along `inner`.
struct PairPanels {
  const std::uint32_t* data = nullptr;
  std::int64_t panel = 0;  // pairs from one panel to the next
  std::int64_t columns = 0;

  static std::int64_t size(std::int64_t inner, std::int64_t columns) {
    return round_up(inner, 2) / 2 * round_up(columns, kPanel);
  }
  // Rows first .. of the inner dim; `first` is even.
  PairPanels from_inner(std::int64_t first) const {
    return {data + first / 2 * kPanel, panel, columns};
  }
  // Columns first .. first + count - 1; `first` is a multiple of 16.
  PairPanels from_column(std::int64_t first, std::int64_t count) const {
    return {data + first / kPanel * panel, panel, count};
  }
};

// A left operand. Rows of elements, `stride` from each other; or, transposed, pairs of such rows. Then element (r, k)
// of the product's left operand is half k % 2 of pair r of row pair k / 2. These row pairs are `stride` pairs from each
// other.
struct PairRows {
  const void* data = nullptr;
  std::int64_t stride = 0;
  std::int64_t rows = 0;
  bool transposed = false;
};

// For every strip of rows of a product the part that is computed or counts; a last strip may have fewer rows.
using Strips = std::span<const Interval>;

// Visible ranges, as intervals of columns by strips of rows and as intervals of rows by strips of columns.
struct SeenStrips {
  std::array<Interval, static_cast<std::size_t>(kTileRows / kStrip)> columns;
  std::vector<Interval> rows;

  void set(const ScoreBlock& block);        // `columns`
  void transpose(const ScoreBlock& block);  // `rows`, from those
};

struct PairKernels {
  // Packs [inner, columns] whose rows are `stride` apart, and the transpose of [columns, inner].
  void (*pack)(const c10::BFloat16* from, std::int64_t stride, std::int64_t inner,
               std::int64_t columns, std::uint32_t* to) = nullptr;
  void (*pack_transposed)(const c10::BFloat16* from, std::int64_t stride, std::int64_t inner,
                          std::int64_t columns, std::uint32_t* to) = nullptr;
  // out = a b in the columns that a strip names, rounded out to multiples of 16; `out` has space for them. `inner` is
  // even.
  void (*multiply_seen)(const PairRows& a, std::int64_t inner, const PairPanels& b, Strips columns,
                        float* out, std::int64_t out_stride) = nullptr;
  // out = a b or out += a b, where a strip gives the range of the inner dim, rounded out to even places; the rest of
  // `a` is 0.
  void (*multiply_part)(const PairRows& a, Strips inner, const PairPanels& b, float* out,
                        std::int64_t out_stride, bool add) = nullptr;
  // As ScoreKernels::softmax_backward, with results as left operands: pairs of rows of probabilities and of gradients
  // for transposed ones (`stride` pairs apart), and plain gradients. Writes whole panels of columns and pairs of rows,
  // 0 where a row does not see.
  void (*softmax_backward)(const ScoreBlock& block, const float* scores, const float* dprobs,
                           const float* log_sums, const float* delta, std::uint32_t* prob_pairs,
                           std::uint32_t* dscore_pairs, c10::BFloat16* dscores) = nullptr;
};

// Empty functions where the CPU has no such instruction.
const PairKernels& pair_kernels();

// Whether products of heads of this width go that way (base/cpu.h).
bool multiplies_pairs(std::int64_t width);

}  // namespace trireme::ops::kernels
