// Common part of forward and backward of attention on the CPU: matrices of heads and the memory of one tile of scores.
#pragma once

#include <ATen/ops/empty.h>

#include <cmath>

#include "trireme/ops/attention/attention_core.h"
#include "trireme/ops/dispatch.h"
#include "trireme/ops/kernels/cpu/matmul.h"
#include "trireme/ops/kernels/cpu/scores.h"

namespace trireme::ops {

// One head of one sample of a [samples, tokens, heads, width]: [tokens, width].
inline kernels::Matrix head_of(const at::Tensor& x, std::int64_t sample, std::int64_t head) {
  const std::int64_t offset = sample * x.stride(0) + head * x.stride(2);
  return {.data = static_cast<char*>(x.data_ptr()) + offset * x.element_size(),
          .type = x.scalar_type(),
          .rows = x.size(1),
          .columns = x.size(3),
          .row_stride = x.stride(1)};
}

// The first rows of a contiguous [.., width].
inline kernels::Matrix first_rows(const at::Tensor& x, std::int64_t rows) {
  return {.data = x.data_ptr(),
          .type = x.scalar_type(),
          .rows = rows,
          .columns = x.size(-1),
          .row_stride = x.size(-1)};
}

// Asks for rows of a head that are read soon: they are too far apart for the CPU to see them coming.
inline void prefetch(const at::Tensor& x, std::int64_t sample, std::int64_t head, std::int64_t row,
                     std::int64_t rows) {
  const kernels::Matrix m = head_of(x, sample, head).from_row(row, std::min(rows, x.size(1) - row));
  const std::int64_t element = x.element_size();
  for (std::int64_t r = 0; r < m.rows; ++r) {
    const char* const begin = static_cast<const char*>(m.data) + r * m.row_stride * element;
    for (std::int64_t byte = 0; byte < m.columns * element; byte += 64)
      __builtin_prefetch(begin + byte);
  }
}

template <typename T>
T* data(const kernels::Matrix& m) {
  return static_cast<T*>(m.data);
}

// Tokens of the longest segment.
inline std::int64_t most_tokens(const Segments& pieces) {
  std::int64_t most = 0;
  for (const Segment& piece : pieces) most = std::max(most, piece.tokens);
  return most;
}

// The scores of one tile in the type of sums, and what becomes of them in that of activations.
class TileScores {
 public:
  TileScores(std::int64_t columns, at::ScalarType type, std::int64_t raw_rows = kTileRows,
             std::int64_t rows = kTileRows)
      : stride_(tiles::score_stride(columns)),
        raw_(at::empty({raw_rows * stride_}, at::TensorOptions().dtype(wide(type)))),
        stored_(at::empty({rows * stride_}, at::TensorOptions().dtype(type))) {}

  std::int64_t stride() const { return stride_; }
  template <typename A>
  A* raw() const {
    return raw_.data_ptr<A>();
  }
  template <typename T>
  T* stored() const {
    return stored_.data_ptr<T>();
  }
  kernels::Matrix raw(const kernels::ScoreBlock& block) const { return matrix(raw_, block); }
  kernels::Matrix stored(const kernels::ScoreBlock& block) const { return matrix(stored_, block); }

 private:
  kernels::Matrix matrix(const at::Tensor& memory, const kernels::ScoreBlock& block) const {
    return {.data = memory.data_ptr(),
            .type = memory.scalar_type(),
            .rows = block.rows,
            .columns = block.columns,
            .row_stride = stride_};
  }

  std::int64_t stride_;
  at::Tensor raw_;
  at::Tensor stored_;
};

// One tile as the kernels take it. `seen` has space for the rows and lives as long as the result.
inline kernels::ScoreBlock score_block(const AttentionProblem& problem, std::int64_t width,
                                       std::int64_t stride, std::int64_t sample, std::int64_t head,
                                       const Segment& rows, const BlockView& view,
                                       const Segment& tile, Interval* seen) {
  for (std::int64_t r = 0; r < rows.tokens; ++r) seen[r] = view.columns(r, tile);
  const AttentionHeads& heads = problem.heads;
  const std::int64_t place = sample * heads.all_heads + heads.first_head + head;
  return {.rows = rows.tokens,
          .columns = tile.tokens,
          .stride = stride,
          .seen = seen,
          .scale = 1 / std::sqrt(static_cast<double>(width)),
          .cap = heads.cap,
          .place = place * problem.sequence + rows.position,
          .first_column = tile.position,
          .drop = heads.dropout > 0,
          .keep = kernels::Keep::at_rate(heads.key, heads.dropout),
          .keep_scale = 1 / (1 - heads.dropout)};
}

// Scores of a tile, as queries and keys give them, become those that are weighed.
template <typename T>
void cap_scores(const kernels::ScoreBlock& block, kernels::Wide<T>* scores) {
  if (block.cap > 0) kernels::score_kernels<T>().cap_scores(block, scores);
}

// Backward's data about a block of queries.
template <typename A>
struct BlockRows {
  kernels::Matrix q, dout;
  const A* log_sums;
  const A* delta;
};

// Where a tile's gradients go: of the block's queries, and of the tile's keys and values, which are added to.
struct TileSums {
  kernels::Matrix dq, dk, dv;
  kernels::Into into;  // dq
};

// Prefetches a block's share of the data of the next head. Only heads with few keys need it: they would be finished
// before the data arrives.
inline void prefetch_next(const AttentionProblem& problem, const Qkv& in, std::int64_t sample,
                          std::int64_t head, const Segment& block) {
  const std::int64_t next = sample * in.q.size(2) + head + 1;
  if (next == in.q.size(0) * in.q.size(2)) return;
  const std::int64_t next_head = next % in.q.size(2);
  const std::int64_t kv_head = problem.heads.kv_head(next_head);
  prefetch(in.q, next / in.q.size(2), next_head, block.row, block.tokens);
  prefetch(in.k, next / in.q.size(2), kv_head, block.row, block.tokens);
  prefetch(in.v, next / in.q.size(2), kv_head, block.row, block.tokens);
}

// Element operations of a head.
inline std::int64_t head_cost(const Qkv& in) { return in.q.size(1) * in.k.size(1) * in.q.size(3); }

}  // namespace trireme::ops
