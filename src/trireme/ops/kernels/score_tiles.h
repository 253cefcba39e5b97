// Which scores of attention exist: what each query sees, and the tiles in which they are computed. No tensors.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "trireme/ops/tiles/attention_scratch.h"

namespace trireme::ops {

// Places begin .. end - 1; none where end <= begin.
struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool empty() const { return end <= begin; }
};

// Tokens that follow each other in the sequence and in memory.
struct Segment {
  std::int64_t row = 0;       // in memory, of the first
  std::int64_t position = 0;  // in the sequence, of the first
  std::int64_t tokens = 0;
};
using Segments = std::vector<Segment>;

enum class MaskKind { kCausal, kFull, kBlockCausal };

// Which positions a query sees: one interval whose begin and end do not decrease from a row to the next.
struct RowMask {
  MaskKind kind = MaskKind::kCausal;
  std::int64_t block = 1;     // tokens of a block of kBlockCausal
  std::int64_t window = -1;   // tokens before its own that a query of kCausal sees; below 0: all
  std::int64_t sequence = 0;  // tokens of the whole sequence
  std::int64_t rows = 0;      // of a sample in memory
  const std::int64_t* begins =
      nullptr;  // [samples, rows], of the row's document; null: the sequence is one
  const std::int64_t* ends = nullptr;  // the same; null: its end does not matter

  Interval seen(std::int64_t sample, std::int64_t row, std::int64_t position) const {
    const std::int64_t at = sample * rows + row;
    const std::int64_t begin = begins != nullptr ? begins[at] : 0;
    const std::int64_t end = ends != nullptr ? ends[at] : sequence;
    switch (kind) {
      case MaskKind::kCausal:
        return {window < 0 ? begin : std::max(begin, position - window),
                std::min(end, position + 1)};
      case MaskKind::kFull: return {begin, end};
      case MaskKind::kBlockCausal:
        return {begin, std::min(end, begin + ((position - begin) / block + 1) * block)};
    }
    return {};
  }
};

using tiles::kTileColumns;
using tiles::kTileRows;
// Tiles begin and end at multiples of this within their segment, because each new shape of a product costs preparation.
inline constexpr std::int64_t kTileStep = 64;

// The segments cut into segments of at most `size` tokens, each counted from the beginning of its own.
inline Segments cut(std::span<const Segment> segments, std::int64_t size) {
  Segments pieces;
  for (const Segment& segment : segments)
    for (std::int64_t done = 0; done < segment.tokens; done += size)
      pieces.push_back({.row = segment.row + done,
                        .position = segment.position + done,
                        .tokens = std::min(size, segment.tokens - done)});
  return pieces;
}

// Visible keys of the rows of one block of queries, and of all of them together.
struct BlockView {
  std::array<Interval, static_cast<std::size_t>(kTileRows)> rows;
  Interval all{std::numeric_limits<std::int64_t>::max(), 0};

  BlockView(const RowMask& mask, std::int64_t sample, const Segment& block) {
    for (std::int64_t r = 0; r < block.tokens; ++r) {
      const Interval seen = mask.seen(sample, block.row + r, block.position + r);
      rows[r] = seen;
      if (seen.empty()) continue;
      all = {std::min(all.begin, seen.begin), std::max(all.end, seen.end)};
    }
  }

  // The part of a segment of keys that is computed; 0 tokens where the rows see nothing of it.
  Segment tile(const Segment& keys) const {
    const std::int64_t begin = std::max<std::int64_t>(0, all.begin - keys.position);
    const std::int64_t end = std::min(keys.tokens, all.end - keys.position);
    if (end <= begin) return {};
    const std::int64_t first = begin / kTileStep * kTileStep;
    const std::int64_t last = std::min(keys.tokens, (end + kTileStep - 1) / kTileStep * kTileStep);
    return {.row = keys.row + first, .position = keys.position + first, .tokens = last - first};
  }

  // The columns of a tile that row r sees.
  Interval columns(std::int64_t r, const Segment& tile) const {
    const Interval& seen = rows[r];
    const std::int64_t begin = std::clamp<std::int64_t>(seen.begin - tile.position, 0, tile.tokens);
    return {begin, std::clamp(seen.end - tile.position, begin, tile.tokens)};
  }
};

// Scores of one head: those a mask lets see, and those that tiles compute for them.
struct ScoreCount {
  std::int64_t seen = 0;
  std::int64_t computed = 0;
};
inline ScoreCount count_scores(const RowMask& mask, std::int64_t sample,
                               std::span<const Segment> queries, std::span<const Segment> keys) {
  ScoreCount count;
  const Segments pieces = cut(keys, kTileColumns);
  for (const Segment& block : cut(queries, kTileRows)) {
    const BlockView view(mask, sample, block);
    for (const Segment& piece : pieces) {
      const Segment tile = view.tile(piece);
      count.computed += block.tokens * tile.tokens;
      for (std::int64_t r = 0; r < block.tokens; ++r) {
        const Interval columns = view.columns(r, tile);
        count.seen += columns.end - columns.begin;
      }
    }
  }
  return count;
}

}  // namespace trireme::ops
