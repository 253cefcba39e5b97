// Tiles in which the CPU kernels of attention compute scores, and the memory that a thread needs for one of them.
#pragma once

#include <algorithm>
#include <cstdint>

namespace trireme::tiles {

// Scores exist for so many query rows and key columns at a time.
inline constexpr std::int64_t kTileRows = 64, kTileColumns = 2048;

// Products of pairs of bf16: rows whose scores stay in the L1 cache, and columns whose keys and values stay in the L2 cache.
inline constexpr std::int64_t kCacheRows = 16, kPairColumns = 512;

// Elements from a row of scores to the next: no power of two, which would put a column's elements into few sets of the
// cache.
inline std::int64_t score_stride(std::int64_t columns) { return columns + 32 - columns % 16; }

// Bytes of a kernel's buffers for one head.
struct AttentionScratch {
  std::int64_t width = 0;    // of a head
  std::int64_t element = 0;  // bytes of an activation
  std::int64_t sum = 0;      // bytes of a sum
  bool pairs = false;        // bf16: the CPU may multiply pairs
  std::int64_t product =
      0;  // most bytes of a product that is added to a sum of queries or keys; 0: none is made

  // `segment` tokens of keys follow each other, of `keys` in all.
  std::int64_t forward(std::int64_t segment, std::int64_t keys) const {
    return kTileRows * width * sum + std::max(scores(segment), pairs ? packed(segment, keys) : 0);
  }
  // With the sums of gradients of a block's queries, or of all if keys are not all in one tile. 0 queries: they are
  // counted elsewhere.
  std::int64_t backward(std::int64_t segment, std::int64_t queries) const {
    return std::max(2 * scores(segment) + added(segment) + sums(segment, queries, kTileColumns),
                    pairs ? packed_backward(segment) + sums(segment, queries, kPairColumns) : 0);
  }

 private:
  // A tile of scores in the type of sums and of activations.
  std::int64_t scores(std::int64_t keys) const {
    return kTileRows * score_stride(std::min(keys, kTileColumns)) * (sum + element);
  }
  std::int64_t added(std::int64_t keys) const {
    return std::min(product, std::max(kTileRows, std::min(keys, kTileColumns)) * width * sum);
  }
  std::int64_t sums(std::int64_t segment, std::int64_t queries, std::int64_t columns) const {
    return (segment <= columns && queries > 0 ? kTileRows : queries) * width * sum;
  }
  // Scores of few rows, and keys and values in pairs.
  std::int64_t packed(std::int64_t segment, std::int64_t keys) const {
    return kCacheRows * score_stride(std::min(segment, kPairColumns)) * (sum + element) +
           2 * keys * width * element;
  }
  // Scores and their gradients, both also as pairs of rows; three packings of keys and values; queries and gradients.
  std::int64_t packed_backward(std::int64_t segment) const {
    const std::int64_t columns = std::min(segment, kPairColumns);
    return score_stride(columns) * (2 * kCacheRows * sum + 3 * kTileRows * element) +
           (3 * columns + 2 * kTileRows) * width * element;
  }
};

}  // namespace trireme::tiles
