#include "trireme/ops/kernels/cpu/pairs.h"

#include <algorithm>
#include <cstring>

#include "trireme/base/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/ops/kernels/cpu/pairs.cc"
#include <hwy/foreach_target.h>

#include "trireme/ops/kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::kernels::HWY_NAMESPACE {

#if HWY_TARGET <= HWY_AVX3

using BF16 = c10::BFloat16;

HWY_INLINE __mmask16 first_lanes(std::int64_t count) {
  return static_cast<__mmask16>((1u << std::clamp<std::int64_t>(count, 0, kPanel)) - 1);
}

// Elements that follow each other as lanes of pairs, 0 after `count` elements.
HWY_INLINE __m512i pairs_of_row(const BF16* row, std::int64_t count) {
  const auto lanes =
      static_cast<__mmask32>((std::uint64_t{1} << std::min<std::int64_t>(count, 32)) - 1);
  return _mm512_maskz_loadu_epi16(lanes, row);
}

void pack(const BF16* from, std::int64_t stride, std::int64_t inner, std::int64_t columns,
          std::uint32_t* to) {
  const std::int64_t pairs = (inner + 1) / 2;
  for (std::int64_t c = 0; c < columns; c += kPanel) {
    const __mmask16 lanes = first_lanes(columns - c);
    for (std::int64_t k = 0; k < pairs; ++k, to += kPanel) {
      const BF16* const row = from + 2 * k * stride + c;
      const __mmask16 next = 2 * k + 1 < inner ? lanes : __mmask16(0);
      const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, row));
      const __m512i high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(next, row + stride));
      _mm512_storeu_si512(to, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
  }
}

// 16 rows of 16 lanes become columns: neighbours at distance 1, 2, 4 and 8 exchange their inner parts.
HWY_INLINE void transpose(__m512i (&rows)[kPanel]) {
  __m512i other[kPanel];
  for (int i = 0; i < kPanel; i += 2) {
    other[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    other[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < kPanel; i += 4)
    for (int j = 0; j < 2; ++j) {
      rows[i + 2 * j] = _mm512_unpacklo_epi64(other[i + j], other[i + j + 2]);
      rows[i + 2 * j + 1] = _mm512_unpackhi_epi64(other[i + j], other[i + j + 2]);
    }
  for (int i = 0; i < kPanel; i += 8)
    for (int j = 0; j < 4; ++j) {
      other[i + j] = _mm512_shuffle_i32x4(rows[i + j], rows[i + j + 4], 0x88);
      other[i + j + 4] = _mm512_shuffle_i32x4(rows[i + j], rows[i + j + 4], 0xDD);
    }
  for (int j = 0; j < 8; ++j) {
    rows[j] = _mm512_shuffle_i32x4(other[j], other[j + 8], 0x88);
    rows[j + 8] = _mm512_shuffle_i32x4(other[j], other[j + 8], 0xDD);
  }
}

void pack_transposed(const BF16* from, std::int64_t stride, std::int64_t inner,
                     std::int64_t columns, std::uint32_t* to) {
  const std::int64_t pairs = (inner + 1) / 2;
  for (std::int64_t c = 0; c < columns; c += kPanel)
    for (std::int64_t k = 0; k < pairs; k += kPanel) {
      __m512i rows[kPanel];
      for (std::int64_t r = 0; r < kPanel; ++r)
        rows[r] = c + r < columns ? pairs_of_row(from + (c + r) * stride + 2 * k, inner - 2 * k)
                                  : _mm512_setzero_si512();
      transpose(rows);
      const std::int64_t count = std::min(kPanel, pairs - k);
      for (std::int64_t r = 0; r < count; ++r, to += kPanel) _mm512_storeu_si512(to, rows[r]);
    }
}

// kRows x 16 kPanels elements of a product.
struct PairTile {
  const char* a;
  std::int64_t stride;  // of a, in bytes
  const std::uint32_t* b;
  std::int64_t panel;
  std::int64_t pairs;  // of the inner dim
  float* out;
  std::int64_t out_stride;
  __mmask16 last;  // lanes of the last panel
  bool add;
};

HWY_INLINE __m512 add_products(__m512 sum, __m512i a, __m512i b) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  return sum;
}

// Sums are taken pair by pair in order, whatever the tile's size. They stay in registers: loops over them must be unrolled
// before anything else is done to them.
template <int kRows, int kPanels, bool kTransposed>
void multiply_tile(const PairTile& tile) {
  const char* a = tile.a;
  const std::uint32_t* b = tile.b;
  float* const out = tile.out;
  const std::int64_t stride = tile.stride, panel = tile.panel, pairs = tile.pairs;
  const std::int64_t out_stride = tile.out_stride;
  __m512 sums[kRows][kPanels];
  const auto over = [&](const auto& body) HWY_ATTR {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p)
        body(sums[r][p], out + r * out_stride + p * kPanel, p + 1 == kPanels);
  };
  const bool whole = tile.last == 0xFFFF;  // masked stores take their time
  if (!tile.add)
    over([&](__m512& sum, const float*, bool) HWY_ATTR { sum = _mm512_setzero_ps(); });
  else
    over([&](__m512& sum, const float* out, bool last) HWY_ATTR {
      sum = last && !whole ? _mm512_maskz_loadu_ps(tile.last, out) : _mm512_loadu_ps(out);
    });
  for (std::int64_t k = 0; k < pairs; ++k) {
    __m512i right[kPanels];
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) right[p] = _mm512_loadu_si512(b + p * panel);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      std::int32_t pair;
      std::memcpy(&pair, a + (kTransposed ? 4 * r : r * stride), sizeof pair);
      const __m512i left = _mm512_set1_epi32(pair);
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) sums[r][p] = add_products(sums[r][p], left, right[p]);
    }
    a += kTransposed ? stride : 4;
    b += kPanel;
  }
  if (whole)
    over([&](__m512 sum, float* out, bool) HWY_ATTR { _mm512_storeu_ps(out, sum); });
  else
    over([&](__m512 sum, float* out, bool last)
             HWY_ATTR { _mm512_mask_storeu_ps(out, last ? tile.last : __mmask16(0xFFFF), sum); });
}

constexpr std::int64_t kMostPanels = 4;

template <int kRows, bool kTransposed>
HWY_INLINE void multiply_panels(const PairTile& tile, std::int64_t panels) {
  switch (panels) {
    case 1: return multiply_tile<kRows, 1, kTransposed>(tile);
    case 2: return multiply_tile<kRows, 2, kTransposed>(tile);
    case 3: return multiply_tile<kRows, 3, kTransposed>(tile);
    default: return multiply_tile<kRows, 4, kTransposed>(tile);
  }
}

template <bool kTransposed>
HWY_INLINE void multiply_strip(const PairTile& tile, std::int64_t rows, std::int64_t panels) {
  switch (rows) {
    case 1: return multiply_panels<1, kTransposed>(tile, panels);
    case 2: return multiply_panels<2, kTransposed>(tile, panels);
    case 3: return multiply_panels<3, kTransposed>(tile, panels);
    default: return multiply_panels<4, kTransposed>(tile, panels);
  }
}

// The strip from row `row` of a product, over `pairs` pairs of the inner dim from pair `pair`, and over the panels from
// column `column` to `end`.
HWY_INLINE void multiply_strip(const PairRows& a, std::int64_t row, std::int64_t pair,
                               std::int64_t pairs, const PairPanels& b, std::int64_t column,
                               std::int64_t end, float* out, std::int64_t out_stride, bool add) {
  const std::int64_t stride = a.stride * (a.transposed ? 4 : 2);
  const std::int64_t panels = (end - column + kPanel - 1) / kPanel;
  const PairTile tile{.a = static_cast<const char*>(a.data) +
                           (a.transposed ? 4 * row + pair * stride : row * stride + 4 * pair),
                      .stride = stride,
                      .b = b.data + column / kPanel * b.panel + pair * kPanel,
                      .panel = b.panel,
                      .pairs = pairs,
                      .out = out + row * out_stride + column,
                      .out_stride = out_stride,
                      .last = first_lanes(end - column - (panels - 1) * kPanel),
                      .add = add};
  const std::int64_t rows = std::min(kStrip, a.rows - row);
  return a.transposed ? multiply_strip<true>(tile, rows, panels)
                      : multiply_strip<false>(tile, rows, panels);
}

// Columns that are computed together, near equal parts of at most four panels: fewer sums would wait for each other.
std::int64_t group_columns(std::int64_t columns) {
  const std::int64_t panels = (columns + kPanel - 1) / kPanel;
  const std::int64_t groups = std::max<std::int64_t>(1, (panels + kMostPanels - 1) / kMostPanels);
  return (panels + groups - 1) / groups * kPanel;
}

void multiply_seen(const PairRows& a, std::int64_t inner, const PairPanels& b, Strips columns,
                   float* out, std::int64_t out_stride) {
  constexpr std::int64_t kGroup = kMostPanels * kPanel;
  for (std::int64_t c = 0; c < b.columns; c += kGroup)
    for (std::int64_t row = 0; row < a.rows; row += kStrip) {
      const Interval& seen = columns[row / kStrip];
      const std::int64_t begin = std::max(c, seen.begin / kPanel * kPanel);
      const std::int64_t end = std::min(c + kGroup, round_up(seen.end, kPanel));
      if (begin < end) multiply_strip(a, row, 0, inner / 2, b, begin, end, out, out_stride, false);
    }
}

void multiply_part(const PairRows& a, Strips inner, const PairPanels& b, float* out,
                   std::int64_t out_stride, bool add) {
  constexpr std::int64_t kPairs = 128;  // of four panels: 32 KiB
  std::int64_t begin = std::numeric_limits<std::int64_t>::max(), end = 0;
  for (const Interval& part : inner)
    if (!part.empty())
      begin = std::min(begin, part.begin / 2), end = std::max(end, (part.end + 1) / 2);
  if (end == 0) begin = 0, end = 1;  // results of no addends are zeros
  const std::int64_t group = group_columns(b.columns);
  for (std::int64_t chunk = begin; chunk < end; chunk += kPairs)
    for (std::int64_t c = 0; c < b.columns; c += group)
      for (std::int64_t row = 0; row < a.rows; row += kStrip) {
        const Interval& part = inner[row / kStrip];
        const std::int64_t from = std::max(chunk, part.begin / 2);
        const std::int64_t to = std::min(chunk + kPairs, part.empty() ? 0 : (part.end + 1) / 2);
        const bool adds = add || chunk > begin;
        if (from < to || !adds)
          multiply_strip(a, row, from < to ? from : 0, std::max<std::int64_t>(0, to - from), b, c,
                         std::min(b.columns, c + group), out, out_stride, adds);
      }
}

// Two rows of floats as pairs of bf16, and as the rows that `rows` keeps: the first in its lower half.
struct TwoRows {
  __m512i rows;

  HWY_INLINE TwoRows(__m512 first, __m512 second) {
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(rows) : "v"(second), "v"(first));
  }
  HWY_INLINE __m512i pairs() const {
    const __m512i places =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(places, rows);
  }
};

// One row's share of softmax_backward.
struct GradientRow {
  const float* scores;
  const float* dprobs;
  Interval seen;
  Vector<float> below, share;
  std::uint32_t key;

  struct Result {
    __m512 prob, dscore;
  };
  template <bool kDrop, bool kCapped>
  HWY_INLINE Result at(std::int64_t c, const ScoreBlock& block) const {
    const Tag<float> d;
    const auto lanes =
        static_cast<__mmask16>(first_lanes(seen.end - c) & ~first_lanes(seen.begin - c));
    const auto scale = hn::Set(d, static_cast<float>(block.scale));
    const auto exponent = hn::Set(d, kExponent<BF16> * static_cast<float>(block.scale));
    const auto score = hn::LoadU(d, scores + c);
    const auto p = power<BF16>(hn::MulAdd(exponent, score, below));
    auto dp = hn::LoadU(d, dprobs + c), kept_p = p;
    if constexpr (kDrop) {
      const auto keep =
          kept<BF16>(block.keep, key, block.first_column + c, static_cast<float>(block.keep_scale));
      dp = hn::Mul(dp, keep);
      kept_p = hn::Mul(p, keep);
    }
    auto dscore = hn::Mul(hn::Mul(p, hn::Sub(dp, share)), scale);
    if constexpr (kCapped) {
      const auto bent = hn::Mul(score, hn::Set(d, static_cast<float>(block.scale / block.cap)));
      dscore = hn::Mul(dscore, hn::NegMulAdd(bent, bent, hn::Set(d, 1.0F)));
    }
    return {_mm512_maskz_mov_ps(lanes, kept_p.raw), _mm512_maskz_mov_ps(lanes, dscore.raw)};
  }
};

template <bool kDrop, bool kCapped>
HWY_INLINE void softmax_backward_of(const ScoreBlock& block, const float* scores,
                                    const float* dprobs, const float* log_sums, const float* delta,
                                    std::uint32_t* prob_pairs, std::uint32_t* dscore_pairs,
                                    BF16* dscores) {
  const std::int64_t columns = round_up(block.columns, kPanel);
  for (std::int64_t r = 0; r < block.rows; r += 2) {
    const auto row = [&](std::int64_t i) -> GradientRow {
      const bool exists = i < block.rows;
      return {.scores = scores + i * block.stride,
              .dprobs = dprobs + i * block.stride,
              .seen = exists ? block.seen[i] : Interval{},
              .below = fill<float>(exists ? -kExponent<BF16> * log_sums[i] : 0),
              .share = fill<float>(exists ? delta[i] : 0),
              .key = kDrop ? block.keep.row(static_cast<std::uint64_t>(block.place + i)) : 0};
    };
    const GradientRow first = row(r), second = row(r + 1);
    std::uint32_t* const p_out = prob_pairs + r / 2 * block.stride;
    std::uint32_t* const d_out = dscore_pairs + r / 2 * block.stride;
    BF16* const rows_out = dscores + r * block.stride;
    const auto write = [&](std::int64_t c, __m512i p, __m512i d_pairs, __m512i d_rows) {
      _mm512_storeu_si512(p_out + c, p);
      _mm512_storeu_si512(d_out + c, d_pairs);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(rows_out + c), _mm512_castsi512_si256(d_rows));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(rows_out + block.stride + c),
                          _mm512_extracti64x4_epi64(d_rows, 1));
    };
    const Interval all = second.seen.empty() ? first.seen
                         : first.seen.empty()
                             ? second.seen
                             : Interval{std::min(first.seen.begin, second.seen.begin),
                                        std::max(first.seen.end, second.seen.end)};
    const std::int64_t begin = all.empty() ? columns : all.begin / kPanel * kPanel;
    const __m512i zero = _mm512_setzero_si512();
    std::int64_t c = 0;
    for (; c < begin; c += kPanel) write(c, zero, zero, zero);
    for (; c < all.end; c += kPanel) {
      const GradientRow::Result a = first.template at<kDrop, kCapped>(c, block),
                                b = second.template at<kDrop, kCapped>(c, block);
      const TwoRows p(a.prob, b.prob), d(a.dscore, b.dscore);
      write(c, p.pairs(), d.pairs(), d.rows);
    }
    for (; c < columns; c += kPanel) write(c, zero, zero, zero);
  }
}

void pair_softmax_backward(const ScoreBlock& block, const float* scores, const float* dprobs,
                           const float* log_sums, const float* delta, std::uint32_t* prob_pairs,
                           std::uint32_t* dscore_pairs, BF16* dscores) {
  const bool capped = block.cap > 0;
  const auto run = block.drop
                       ? capped ? softmax_backward_of<true, true> : softmax_backward_of<true, false>
                   : capped ? softmax_backward_of<false, true>
                            : softmax_backward_of<false, false>;
  run(block, scores, dprobs, log_sums, delta, prob_pairs, dscore_pairs, dscores);
}

PairKernels pair_kernels_of_target() {
  return {.pack = pack,
          .pack_transposed = pack_transposed,
          .multiply_seen = multiply_seen,
          .multiply_part = multiply_part,
          .softmax_backward = pair_softmax_backward};
}

#else

PairKernels pair_kernels_of_target() { return {}; }

#endif

}  // namespace trireme::ops::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::kernels {

HWY_EXPORT(pair_kernels_of_target);

const PairKernels& pair_kernels() {
  static const PairKernels chosen = HWY_DYNAMIC_DISPATCH(pair_kernels_of_target)();
  return chosen;
}

bool multiplies_pairs(std::int64_t width) {
  static const bool able = multiplies_bf16_in_lanes() && pair_kernels().pack != nullptr;
  return able && width % 2 == 0;
}

// The union of what rows see that see anything.
void SeenStrips::set(const ScoreBlock& block) {
  columns = {};
  for (std::int64_t r = 0; r < block.rows; ++r) {
    Interval& strip = columns[r / kStrip];
    const Interval& seen = block.seen[r];
    if (seen.empty()) continue;
    strip = strip.empty()
                ? seen
                : Interval{std::min(strip.begin, seen.begin), std::max(strip.end, seen.end)};
  }
}

void SeenStrips::transpose(const ScoreBlock& block) {
  const auto places = static_cast<std::size_t>((block.columns + kStrip - 1) / kStrip);
  rows.assign(places, {});
  for (std::int64_t r = 0; r < block.rows; r += kStrip) {
    const Interval& seen = columns[r / kStrip];
    for (std::int64_t c = seen.begin / kStrip; c * kStrip < seen.end; ++c) {
      Interval& strip = rows[c];
      strip = {strip.empty() ? r : strip.begin, std::min(r + kStrip, block.rows)};
    }
  }
}

}  // namespace trireme::ops::kernels
#endif
